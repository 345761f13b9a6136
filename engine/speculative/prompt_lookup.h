// PromptLookup guesses what a text says next by looking where it said the last words before:
// answers that quote their sources, code that is edited, tables. (Prompt lookup decoding: Saxena,
// 2023, https://github.com/apoorvumang/prompt-lookup-decoding.)
//
// The guess follows the latest earlier place of the last four tokens, or else of the last two. It
// is verified by the model in the same step as the next token, so it can save steps but never
// change a token: each row is sampled as it would have been, and a guess counts only where it says
// the same.
//
// How many guesses are worth their rows is decided per request. With p the share of guesses that
// came true lately, and each further row costing `row_share` of a step, n guesses give
// (1 - p^(n+1)) / (1 - p) tokens for 1 + n * row_share steps; the best n is taken, which may be
// none. A guess that was not verified is compared with what came all the same, so a request that
// starts to quote later is noticed.
//
// Threads: thread-compatible. Memory: about 50 bytes a token.
#ifndef CAIRN_ENGINE_SPECULATIVE_PROMPT_LOOKUP_H_
#define CAIRN_ENGINE_SPECULATIVE_PROMPT_LOOKUP_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/tokenizer/tokenizer.h"

namespace cairn::engine {

// Verified in one step at most: what a chunk of the narrow matrix product takes together with the
// known token.
inline constexpr int kMaxDraft = 15;

class PromptLookup {
 public:
  // Takes in what `tokens`, the whole text so far, has grown by since the last call, and returns
  // the guess at its continuation: at most `max_tokens`, none where nothing is known or it does not
  // pay.
  std::vector<TokenId> Draft(std::span<const TokenId> tokens, int max_tokens, double row_share);

 private:
  using Places = std::unordered_map<uint64_t, int32_t>;  // hash of an n-gram -> where it ended last
  // Where the text goes on like it did before; -1 when it never did.
  int FindContinuation(std::span<const TokenId> tokens) const;

  Places short_, long_;
  int num_read_ = 0;
  // Whether what came after the last call is what it expected.
  void Learn(std::span<const TokenId> tokens);

  // The last guess: that the text from `guessed_at_` on is the text from `guess_from_` on, of which
  // `num_drafted_` tokens were returned. -1: there was none.
  int guess_from_ = -1;
  int guessed_at_ = 0;
  int num_drafted_ = 0;
  double hit_rate_ = 0.3;  // low: quoting has to show itself
};

// The number of guesses, in [0, max], that gives most tokens for its time; see above.
int BestDraftLength(double hit_rate, double row_share, int max);

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SPECULATIVE_PROMPT_LOOKUP_H_
