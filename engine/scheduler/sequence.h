// Sequence: one row of text being computed, as the scheduler sees it.
#ifndef CAIRN_ENGINE_SCHEDULER_SEQUENCE_H_
#define CAIRN_ENGINE_SCHEDULER_SEQUENCE_H_

#include <string>
#include <vector>

#include "engine/kv_cache/block_pool.h"
#include "engine/scheduler/step_plan.h"

namespace cairn::engine {

struct Sequence {
  SequenceId id = 0;
  std::vector<TokenId> tokens;  // known: the prompt, then what was sampled
  int num_prompt = 0;
  int max_tokens = 0;  // sampled at most
  std::string salt;    // only sequences with equal salts share blocks
  // Logits of every token of the prompt are wanted, so all of it is computed.
  bool prompt_logits = false;
  int num_forks = 0;           // places kept for sequences that will continue the same prompt
  bool paused = false;         // its reader is behind: plan nothing for it
  std::vector<TokenId> draft;  // guesses at what follows the last known token, for the next plan

  // The scheduler's.
  int num_computed = 0;   // known tokens whose keys and values are in the cache
  int num_cached = 0;     // of the prompt, those that were there at the first admission
  int num_published = 0;  // whole blocks that the prefix cache has been told of
  int num_preemptions = 0;
  BlockTable table;

  int num_owed() const { return static_cast<int>(tokens.size()) - num_computed; }
  int num_left() const { return num_prompt + max_tokens - static_cast<int>(tokens.size()); }
  // Owes the one token that was sampled last.
  bool decoding() const { return num_computed >= num_prompt && num_owed() == 1; }
};

}  // namespace cairn::engine

#endif  // CAIRN_ENGINE_SCHEDULER_SEQUENCE_H_
