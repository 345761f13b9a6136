#include "agent/ask/attribution.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "agent/ask/word_order.h"
#include "common/sentences.h"
#include "common/strings.h"

namespace cairn::agent {
namespace {

constexpr double kContainmentShare = 0.55;  // of the blend; the rest is similarity
// Words alone decide when one sentence holds this share of the answer's: no embedding is computed
// then.
constexpr double kSureContainment = 0.8;
constexpr double kMarkerBonus = 0.05;
// A further citation must hold this share of the sentence itself, and add this share to what is
// covered.
constexpr double kMinOwnShare = 0.2;
constexpr double kMinAddedShare = 0.15;
// A clause is the one that was restated when it holds this share of the restating clause's terms.
constexpr double kSameClauseShare = 0.6;
// A clause may mix sources when the citations together hold this share more of it than any one
// source; it does when the source of what it says holds less than the second share of what was
// asked about.
constexpr double kMixedShare = 0.2;
constexpr double kMinAskedShare = 0.2;
constexpr size_t kMinMixedTerms = 3;  // shorter clauses say too little to judge
// A term that no source holds may be a paraphrase: it weighs like one that every tenth sentence
// holds.
constexpr double kUnknownTermShare = 0.1;

bool IsCancellation(const absl::Status& status) {
  return status.code() == absl::StatusCode::kCancelled ||
         status.code() == absl::StatusCode::kDeadlineExceeded;
}

// Clauses, also cut where statements are joined.
std::vector<std::string_view> SplitStatements(std::string_view sentence) {
  static constexpr std::string_view kJoints[] = {" and ", "、", "并且", "而且", "以及", "同时"};
  std::vector<std::string_view> parts;
  for (std::string_view clause : SplitClauses(sentence)) {
    while (true) {
      size_t cut = std::string_view::npos, size = 0;
      for (const std::string_view joint : kJoints) {
        if (const size_t at = clause.find(joint); at < cut) cut = at, size = joint.size();
      }
      parts.push_back(clause.substr(0, cut));
      if (cut == std::string_view::npos) break;
      clause.remove_prefix(cut + size);
    }
  }
  return parts;
}

double Share(const Features& part, const Features& whole) {
  if (part.terms.empty()) return 0;
  const auto held = std::count_if(part.terms.begin(), part.terms.end(),
                                  [&](const std::string& term) { return whole.HasTerm(term); });
  return static_cast<double>(held) / static_cast<double>(part.terms.size());
}

}  // namespace

absl::StatusOr<std::optional<SourceSpan>> SpanOf(const Passage& passage, size_t begin, size_t end) {
  const auto broken = [&](std::string_view why) {
    return absl::InternalError(StrCat("chunk ", passage.chunk_id, ": ", why));
  };
  if (begin > end || end > passage.text.size()) return broken("text range outside the text");
  if (passage.span_end < passage.span_begin ||
      passage.source.size() != passage.span_end - passage.span_begin) {
    return broken("source bytes do not have the size of the span");
  }
  std::optional<SourceSpan> span;
  for (const TextRun& run : passage.runs) {
    const uint64_t run_end = run.text_begin + run.text_size;
    if (run_end < run.text_begin || run_end > passage.text.size())
      return broken("run outside the text");
    if (run_end <= begin || run.text_begin >= end || run.text_size == 0) continue;
    uint64_t from = run.source_begin;
    uint64_t to = run.source_begin + run.source_size;
    if (from < passage.span_begin || to < from || to > passage.span_end)
      continue;  // shown here, stands elsewhere
    if (run.text_size == run.source_size) {
      const uint64_t first = std::max<uint64_t>(begin, run.text_begin),
                     last = std::min<uint64_t>(end, run_end);
      from = run.source_begin + (first - run.text_begin);
      to = run.source_begin + (last - run.text_begin);
      if (std::string_view(passage.source).substr(from - passage.span_begin, to - from) !=
          std::string_view(passage.text).substr(first, last - first)) {
        return broken("text and source differ in a run of equal size");
      }
    }
    if (!span) span.emplace(SourceSpan{from, to, {}});
    span->begin = std::min(span->begin, from);
    span->end = std::max(span->end, to);
  }
  if (span) {
    span->quote = std::string_view(passage.source)
                      .substr(span->begin - passage.span_begin, span->end - span->begin);
  }
  return span;
}

absl::StatusOr<Attributor> Attributor::Create(const std::vector<PackedSource>& sources,
                                              std::string_view question, SupportScorer* scorer,
                                              AttributionOptions options) {
  Attributor attributor(scorer, options);
  attributor.question_ = ExtractFeatures(question);
  for (const PackedSource& source : sources) {
    attributor.source_features_[&source] =
        ExtractFeatures(StrCat(source.heading, "\n", source.text));
    for (const Passage& passage : source.parts) {
      for (const auto& [begin, end] : SplitSentences(passage.text)) {
        CAIRN_ASSIGN_OR_RETURN(const std::optional<SourceSpan> span, SpanOf(passage, begin, end));
        if (!span || span->quote.empty()) continue;
        const std::string_view text = std::string_view(passage.text).substr(begin, end - begin);
        Candidate candidate{&source, &passage, text, *span, ExtractFeatures(text)};
        if (candidate.features.terms.empty() && candidate.features.numbers.empty()) continue;
        for (const std::string& term : candidate.features.terms)
          ++attributor.document_frequency_[term];
        attributor.candidates_.push_back(std::move(candidate));
      }
    }
  }
  return attributor;
}

bool Attributor::HasClaim(const Features& sentence) {
  return sentence.terms.size() >= 2 || !sentence.numbers.empty() || !sentence.names.empty();
}

double Attributor::Weight(const std::string& term) const {
  const double n = static_cast<double>(candidates_.size());
  const auto it = document_frequency_.find(term);
  const double df = it == document_frequency_.end() ? kUnknownTermShare * n : it->second;
  return std::log(1 + (n - df + 0.5) / (df + 0.5));
}

double Attributor::Containment(const Features& sentence,
                               const std::vector<size_t>& candidates) const {
  return WeightedShare(sentence, [&](const std::string& term) {
    return std::any_of(candidates.begin(), candidates.end(),
                       [&](size_t i) { return candidates_[i].features.HasTerm(term); });
  });
}

double Attributor::ContainmentInSource(const Features& sentence, const PackedSource* source) const {
  const Features& features = source_features_.at(source);
  return WeightedShare(sentence, [&](const std::string& term) { return features.HasTerm(term); });
}

double Attributor::WeightedShare(const Features& sentence,
                                 absl::FunctionRef<bool(const std::string&)> is_held) const {
  double held = 0, all = 0;
  for (const std::string& term : sentence.terms) {
    const double weight = Weight(term);
    all += weight;
    held += is_held(term) ? weight : 0;
  }
  return all == 0 ? 0 : held / all;
}

double Attributor::Blend(double containment, double similarity) const {
  if (scorer_ == nullptr || !degraded_.empty()) return containment;
  return kContainmentShare * containment + (1 - kContainmentShare) * similarity;
}

absl::StatusOr<std::vector<Attributor::Match>> Attributor::Rank(
    const RequestContext& context, std::string_view text, const Features& sentence,
    const std::vector<int>& marked_sources) {
  std::vector<Match> matches(candidates_.size());
  for (size_t i = 0; i < candidates_.size(); ++i) {
    matches[i] = {i, Containment(sentence, {i}), 0, 0};
    // A sentence that is little but a number is found by it.
    for (const NumberFeature& number : sentence.numbers) {
      if (candidates_[i].features.HasNumber(number)) matches[i].score += 0.1;
    }
    matches[i].score += matches[i].containment;
  }
  // Ties keep the order of the sources, which is by relevance.
  const auto by_score = [](const Match& a, const Match& b) { return a.score > b.score; };
  std::stable_sort(matches.begin(), matches.end(), by_score);
  if (matches.size() > static_cast<size_t>(options_.max_similarity_candidates)) {
    matches.resize(options_.max_similarity_candidates);
  }
  const bool sure = !matches.empty() && matches[0].containment >= kSureContainment;
  if (!sure) CAIRN_RETURN_IF_ERROR(AddSimilarity(context, text, &matches));
  for (Match& match : matches) {
    // Where words decide, the best similarity is taken for granted.
    if (sure) match.similarity = match.containment;
    match.score = Blend(match.containment, match.similarity);
    const int number = candidates_[match.candidate].source->source.number;
    if (std::find(marked_sources.begin(), marked_sources.end(), number) != marked_sources.end()) {
      match.score += kMarkerBonus;
    }
  }
  std::stable_sort(matches.begin(), matches.end(), by_score);
  return matches;
}

absl::Status Attributor::AddSimilarity(const RequestContext& context, std::string_view text,
                                       std::vector<Match>* matches) {
  if (scorer_ == nullptr || !degraded_.empty() || matches->empty()) return absl::OkStatus();
  std::vector<std::string_view> texts;
  for (const Match& match : *matches) texts.push_back(candidates_[match.candidate].text);
  absl::StatusOr<std::vector<float>> cosines = scorer_->Similarity(context, text, texts);
  if (cosines.ok() && cosines->size() != texts.size()) {
    cosines = absl::InternalError(
        StrCat("scorer gave ", cosines->size(), " values for ", texts.size(), " texts"));
  }
  if (!cosines.ok()) {
    if (IsCancellation(cosines.status())) return cosines.status();
    degraded_ = std::string(cosines.status().message());
    return absl::OkStatus();
  }
  const double range = options_.similarity_ceiling - options_.similarity_floor;
  for (size_t i = 0; i < texts.size(); ++i) {
    (*matches)[i].similarity =
        std::clamp(((*cosines)[i] - options_.similarity_floor) / range, 0.0, 1.0);
  }
  return absl::OkStatus();
}

bool Attributor::NumberIsCited(const NumberFeature& number,
                               const std::vector<size_t>& cited) const {
  return std::any_of(cited.begin(), cited.end(),
                     [&](size_t i) { return candidates_[i].features.HasNumber(number); });
}

bool Attributor::NameIsCited(const NameFeature& name, const std::vector<size_t>& cited) const {
  return std::any_of(cited.begin(), cited.end(), [&](size_t i) {
    return source_features_.at(candidates_[i].source).HasName(name);
  });
}

std::vector<size_t> Attributor::Choose(const Features& sentence,
                                       const std::vector<Match>& matches) const {
  std::vector<size_t> chosen = {matches[0].candidate};
  while (chosen.size() < static_cast<size_t>(options_.max_citations)) {
    const double covered = Containment(sentence, chosen);
    std::optional<size_t> best;
    double best_gain = 0;
    for (const Match& match : matches) {
      if (std::find(chosen.begin(), chosen.end(), match.candidate) != chosen.end()) continue;
      const Candidate& candidate = candidates_[match.candidate];
      const bool same_source = std::any_of(chosen.begin(), chosen.end(), [&](size_t i) {
        return candidates_[i].source == candidate.source;
      });
      if (match.containment < kMinOwnShare && !same_source) continue;
      std::vector<size_t> with = chosen;
      with.push_back(match.candidate);
      const double added = Containment(sentence, with) - covered;
      double gain = added >= kMinAddedShare && match.containment >= kMinOwnShare ? added : 0;
      for (const NumberFeature& number : sentence.numbers) {
        if (!NumberIsCited(number, chosen) && candidate.features.HasNumber(number)) gain += 1;
      }
      for (const NameFeature& name : sentence.names) {
        if (!NameIsCited(name, chosen) && candidate.features.HasName(name)) gain += 1;
      }
      if (gain > best_gain) {
        best_gain = gain;
        best = match.candidate;
      }
    }
    if (!best) break;
    chosen.push_back(*best);
  }
  return chosen;
}

bool Attributor::NegationDiffers(std::string_view text, const Features& sentence,
                                 const std::vector<size_t>& cited) const {
  if (sentence.negated == candidates_[cited[0]].features.negated) return false;
  for (const std::string_view clause_text : SplitClauses(text)) {
    const Features clause = ExtractFeatures(clause_text);
    if (clause.terms.size() < 2) continue;
    double best = 0;
    bool negated = clause.negated;
    for (const size_t i : cited) {
      for (const std::string_view source_text : SplitClauses(candidates_[i].text)) {
        const Features source = ExtractFeatures(source_text);
        if (const double share = Share(clause, source); share > best) {
          best = share;
          negated = source.negated;
        }
      }
    }
    if (best >= kSameClauseShare && negated != clause.negated) return true;
  }
  return false;
}

// "The pump is greased with olive oil", when one source greases the pump and another fries in oil.
// An answer repeats words of the question, which its source need not have all: "the maximum size is
// 64 MB" of a source that closes the connection at 64 MB. But it must have some.
bool Attributor::MixesSources(std::string_view text, const std::vector<size_t>& cited) const {
  for (const std::string_view part : SplitStatements(text)) {
    const Features clause = ExtractFeatures(part);
    if (clause.terms.size() < kMinMixedTerms) continue;
    Features asked, said;
    for (const std::string& term : clause.terms) {
      (question_.HasTerm(term) ? asked : said).terms.push_back(term);
    }
    double best = 0, best_said = 0;
    const PackedSource* says = nullptr;
    for (const size_t i : cited) {
      const PackedSource* source = candidates_[i].source;
      best = std::max(best, ContainmentInSource(clause, source));
      const double share = ContainmentInSource(said, source);
      if (share > best_said) best_said = share, says = source;
    }
    if (says == nullptr || Containment(clause, cited) - best < kMixedShare) continue;
    if (asked.terms.empty() || ContainmentInSource(asked, says) < kMinAskedShare) return true;
  }
  return false;
}

bool Attributor::SwapsRoles(std::string_view text, const std::vector<size_t>& cited) const {
  const auto says = [&](size_t i, const std::vector<std::string>& row) {
    return ContainsRow(WordRow(candidates_[i].text), row);
  };
  for (const OrderedPair& pair : OrderedPairs(WordRow(text))) {
    const bool reversed =
        std::any_of(cited.begin(), cited.end(), [&](size_t i) { return says(i, pair.reversed); });
    if (!reversed) continue;
    bool forward = false;  // said by any source, cited or not
    for (size_t i = 0; i < candidates_.size() && !forward; ++i) forward = says(i, pair.forward);
    if (!forward) return true;
  }
  return false;
}

absl::StatusOr<AnswerSentence> Attributor::Attribute(const RequestContext& context,
                                                     std::string_view text,
                                                     const std::vector<int>& marked_sources) {
  AnswerSentence out;
  const Features sentence = ExtractFeatures(text);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<Match> matches,
                         Rank(context, text, sentence, marked_sources));
  if (matches.empty()) {
    out.issues.push_back({"NO_MATCHING_SOURCE", ""});
    return out;
  }
  const std::vector<size_t> chosen = Choose(sentence, matches);
  const double support = Blend(Containment(sentence, chosen), matches[0].similarity);
  if (support < options_.support_bar) {
    out.issues.push_back({"NO_MATCHING_SOURCE", ""});
    return out;
  }
  for (const NumberFeature& number : sentence.numbers) {
    if (!NumberIsCited(number, chosen)) out.issues.push_back({"NUMBER_NOT_IN_SOURCE", number.text});
  }
  for (const NameFeature& name : sentence.names) {
    if (!NameIsCited(name, chosen)) out.issues.push_back({"NAME_NOT_IN_SOURCE", name.text});
  }
  if (NegationDiffers(text, sentence, chosen)) out.issues.push_back({"NEGATION_DIFFERS", ""});
  if (MixesSources(text, chosen)) out.issues.push_back({"SOURCES_MIXED", ""});
  if (SwapsRoles(text, chosen)) out.issues.push_back({"ROLES_SWAPPED", ""});
  out.supported = out.issues.empty();
  for (const size_t i : chosen) {
    const Candidate& c = candidates_[i];
    const auto match = std::find_if(matches.begin(), matches.end(),
                                    [&](const Match& m) { return m.candidate == i; });
    out.citations.push_back({c.source->source.number, c.passage->chunk_id, c.passage->document_id,
                             c.passage->version, c.span.begin, c.span.end,
                             std::string(c.span.quote), std::string(c.text),
                             std::min(1.0, match->score)});
  }
  return out;
}

}  // namespace cairn::agent
