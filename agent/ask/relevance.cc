#include "agent/ask/relevance.h"

#include <algorithm>

#include "common/strings.h"

namespace cairn::agent {
namespace {

// Names say most about what a question is about; Han bigrams overlap, so that two make about one
// word.
constexpr double kNameWeight = 2.0;
constexpr double kHanBigramWeight = 0.6;

struct WeightedTerm {
  std::string term;
  double weight;
  bool name;
};

std::vector<WeightedTerm> WeightedTerms(std::string_view text, const Features& question) {
  std::vector<WeightedTerm> terms;
  for (const std::string& term : QuestionTerms(text)) {
    const bool name = std::any_of(question.names.begin(), question.names.end(),
                                  [&](const NameFeature& n) { return n.parts[0] == term; });
    const bool han = (static_cast<unsigned char>(term[0]) & 0x80) != 0;
    terms.push_back({term, name ? kNameWeight : han ? kHanBigramWeight : 1.0, name});
  }
  return terms;
}

template <typename Holds>
double Coverage(const std::vector<WeightedTerm>& terms, const Holds& holds) {
  double held = 0, all = 0;
  for (const WeightedTerm& t : terms) {
    all += t.weight;
    if (holds(t.term)) held += t.weight;
  }
  return all == 0 ? 1 : held / all;
}

}  // namespace

Relevance AssessRelevance(std::string_view question_text, const std::vector<Passage>& passages,
                          const RelevanceOptions& options) {
  Relevance out;
  if (passages.empty()) {
    out.detail = "nothing was found";
    return out;
  }
  const Features question = ExtractFeatures(question_text);
  const std::vector<WeightedTerm> terms = WeightedTerms(question_text, question);
  std::vector<Features> features;
  double best_logit = -1e9;
  for (const Passage& p : passages) {
    std::string text = p.title;
    for (const std::string& heading : p.heading_path) StrAppend(&text, "\n", heading);
    features.push_back(ExtractFeatures(StrCat(text, "\n", p.document_id, "\n", p.text)));
    out.best_cosine = std::max(out.best_cosine, p.vector_score);
    if (p.has_rerank) best_logit = std::max(best_logit, p.rerank_score);
  }
  for (const NameFeature& name : question.names) {
    const bool known = std::any_of(features.begin(), features.end(),
                                   [&](const Features& f) { return f.HasName(name); });
    if (!known) {
      out.detail = StrCat("\"", name.text, "\" is in no source");
      return out;
    }
  }
  const auto is_found = [&](const std::string& term) {
    return std::any_of(features.begin(), features.end(),
                       [&](const Features& f) { return f.HasTerm(term); });
  };
  if (const std::string thing = CountedThing(question_text); !thing.empty() && !is_found(thing)) {
    out.detail = StrCat("\"", thing, "\" is in no source");
    return out;
  }
  for (const Features& f : features) {
    out.best_coverage =
        std::max(out.best_coverage,
                 Coverage(terms, [&](const std::string& term) { return f.HasTerm(term); }));
  }
  out.total_coverage = Coverage(terms, is_found);
  // The name of what the whole collection is about says little: something of what is asked about it
  // must be there too.
  const auto others =
      std::count_if(terms.begin(), terms.end(), [](const WeightedTerm& t) { return !t.name; });
  const auto others_found = std::count_if(terms.begin(), terms.end(), [&](const WeightedTerm& t) {
    return !t.name && is_found(t.term);
  });
  const bool only_names = others >= 2 && others_found == 0;
  const bool sure =
      out.best_cosine >= options.sure_cosine || best_logit >= options.sure_rerank_logit;
  out.relevant = sure || (!only_names && out.best_coverage >= options.min_best_coverage &&
                          out.total_coverage >= options.min_total_coverage);
  if (!out.relevant) out.detail = "the sources hold too little of what the question is about";
  return out;
}

bool HoldsAnswerKind(AnswerKind kind, const Features& question, const Features& sentence) {
  const auto new_number = [&](const std::string& form) {
    return question.number_forms.count(form) == 0;
  };
  switch (kind) {
    case AnswerKind::kAny:
      return true;
    case AnswerKind::kNumber:
      return std::any_of(sentence.number_forms.begin(), sentence.number_forms.end(), new_number);
    case AnswerKind::kDate:
      return std::any_of(
          sentence.number_forms.begin(), sentence.number_forms.end(),
          [&](const std::string& form) { return form.size() >= 4 && new_number(form); });
    case AnswerKind::kPerson:
      return std::any_of(sentence.names.begin(), sentence.names.end(),
                         [&](const NameFeature& name) { return !question.HasName(name); });
  }
  return true;
}

}  // namespace cairn::agent
