// Attribution finds, for a sentence of an answer, the sentences of the sources that say it, and
// decides whether they do.
//
// A candidate's score blends lexical containment (the share of the answer sentence's terms that it
// holds, weighted by their rarity among the source sentences), similarity of embeddings when a
// scorer is given, and a small bonus when the model's own marker names the source. Citations are
// chosen greedily: the best candidate, then those that add terms, numbers or names still uncovered.
// The sentence is supported when the best score reaches the bar, every number occurs in a cited
// sentence, every name in a cited source (its text, heading or title), negation agrees with the
// clause matched, no clause puts words of one source to what another says, and no cited sentence
// says a clause the other way round.
//
// Threads: thread-compatible.
// Errors: CANCELLED and DEADLINE_EXCEEDED of the scorer; INTERNAL when a passage's runs and its
// bytes disagree (the quote could not be trusted). Any other scorer error switches similarity off,
// see degraded().
#ifndef CAIRN_AGENT_ASK_ATTRIBUTION_H_
#define CAIRN_AGENT_ASK_ATTRIBUTION_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "agent/ask/answer.h"
#include "agent/ask/features.h"
#include "agent/ask/packing.h"
#include "agent/ports.h"
#include "common/context.h"
#include "common/status.h"

namespace cairn::agent {

struct AttributionOptions {
  int max_citations = 3;
  int max_similarity_candidates = 24;
  double support_bar = 0.45;  // chosen on the bRPC manual, see docs/answer-quality.md
  // Cosines of multilingual-e5-small between unrelated and between equal sentences; other embedders
  // need others.
  double similarity_floor = 0.80;
  double similarity_ceiling = 0.95;
};

// Maps text[begin, end) of a passage to its bytes in the document. Nothing when the text has none
// (inserted by parsing). INTERNAL when the runs do not fit the passage.
struct SourceSpan {
  uint64_t begin = 0, end = 0;
  std::string_view quote;  // into passage.source
};
absl::StatusOr<std::optional<SourceSpan>> SpanOf(const Passage& passage, size_t begin, size_t end);

class Attributor {
 public:
  // `sources` must outlive the attributor. `scorer` may be null.
  static absl::StatusOr<Attributor> Create(const std::vector<PackedSource>& sources,
                                           std::string_view question, SupportScorer* scorer,
                                           AttributionOptions options);

  // Whether there is anything in the sentence that a source could support: "For example:" has not.
  static bool HasClaim(const Features& sentence);

  // Fills supported, citations and issues. `marked_sources`: numbers that the model put at the
  // sentence.
  absl::StatusOr<AnswerSentence> Attribute(const RequestContext& context, std::string_view sentence,
                                           const std::vector<int>& marked_sources);

  // The error that switched similarity off, or "".
  const std::string& degraded() const { return degraded_; }

 private:
  struct Candidate {
    const PackedSource* source;
    const Passage* passage;
    std::string_view text;
    SourceSpan span;
    Features features;
  };
  struct Match {
    size_t candidate = 0;
    double containment = 0;  // 0..1
    double similarity = 0;   // 0..1, calibrated
    double score = 0;
  };

  Attributor(SupportScorer* scorer, AttributionOptions options)
      : scorer_(scorer), options_(options) {}
  double Weight(const std::string& term) const;
  double Containment(const Features& sentence, const std::vector<size_t>& candidates) const;
  double WeightedShare(const Features& sentence,
                       absl::FunctionRef<bool(const std::string&)> is_held) const;
  double ContainmentInSource(const Features& sentence, const PackedSource* source) const;
  double Blend(double containment, double similarity) const;
  // Candidates worth a look, best first.
  absl::StatusOr<std::vector<Match>> Rank(const RequestContext& context, std::string_view text,
                                          const Features& sentence,
                                          const std::vector<int>& marked_sources);
  absl::Status AddSimilarity(const RequestContext& context, std::string_view text,
                             std::vector<Match>* matches);
  std::vector<size_t> Choose(const Features& sentence, const std::vector<Match>& matches) const;
  bool NameIsCited(const NameFeature& name, const std::vector<size_t>& cited) const;
  bool NumberIsCited(const NumberFeature& number, const std::vector<size_t>& cited) const;
  bool NegationDiffers(std::string_view text, const Features& sentence,
                       const std::vector<size_t>& cited) const;
  bool MixesSources(std::string_view text, const std::vector<size_t>& cited) const;
  bool SwapsRoles(std::string_view text, const std::vector<size_t>& cited) const;

  SupportScorer* scorer_;
  AttributionOptions options_;
  Features question_;
  std::vector<Candidate> candidates_;
  std::map<const PackedSource*, Features>
      source_features_;                            // of a source's whole text, heading and title
  std::map<std::string, int> document_frequency_;  // of terms, over candidates
  std::string degraded_;
};

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_ASK_ATTRIBUTION_H_
