#include "agent/ask/ask.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/time/clock.h"
#include "agent/ask/attribution.h"
#include "agent/ask/features.h"
#include "agent/ask/marker_filter.h"
#include "agent/ask/packing.h"
#include "agent/ask/prompt.h"
#include "agent/ask/relevance.h"
#include "agent/ask/rewrite.h"
#include "agent/ask/sentence_stream.h"
#include "agent/session/session_store.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::agent {
namespace {

// Chat template tokens around the messages, which CountTokens does not see.
constexpr int kTemplateTokens = 64;
// Fewer than this many tokens of sources are not worth asking with.
constexpr int kMinSourceTokens = 64;
// A generator that repeats itself this often has nothing more to say.
constexpr int kMaxRepeats = 2;
// The sentence with its cited sources must hold this share of what the question is about.
constexpr double kMinResponsiveness = 0.34;

absl::Status Cancelled() { return absl::CancelledError("the receiver of the answer stopped it"); }

// One question on its way through the stages.
class AskRun {
 public:
  AskRun(Model* model, Retriever* retriever, SupportScorer* scorer, SessionStore* sessions,
         const AskOptions& options, const RequestContext& context, const AskRequest& request,
         const AskEventCallback& on_event)
      : model_(model),
        retriever_(retriever),
        scorer_(scorer),
        sessions_(sessions),
        options_(options),
        context_(context),
        request_(request),
        on_event_(on_event) {}

  absl::StatusOr<AskResult> Run() {
    CAIRN_RETURN_IF_ERROR(Validate());
    result_.language = std::string(LanguageOf(request_.question));
    CAIRN_RETURN_IF_ERROR(Timed("rewrite", [&] { return Rewrite(); }));
    CAIRN_RETURN_IF_ERROR(Timed("retrieve", [&] { return Retrieve(result_.standalone_question); }));
    Relevance relevance;
    const auto assess = [&] {
      relevance = AssessRelevance(result_.standalone_question, passages_);
      return absl::OkStatus();
    };
    CAIRN_RETURN_IF_ERROR(Timed("gate", assess));
    // "是什么" may have drawn passages that say "是什么": once more, with what is asked about
    // alone.
    const std::string words = WithoutQuestionWords(result_.standalone_question);
    if (!relevance.relevant && words != result_.standalone_question &&
        words.find_first_not_of(" ?") != std::string::npos) {
      CAIRN_RETURN_IF_ERROR(Timed("retrieve_words", [&] { return Retrieve(words); }));
      CAIRN_RETURN_IF_ERROR(Timed("gate", assess));
    }
    if (!relevance.relevant) {
      CAIRN_RETURN_IF_ERROR(Abstain("NO_RELEVANT_SOURCE", relevance.detail));
      return Finish();
    }
    CAIRN_RETURN_IF_ERROR(Timed("pack", [&] { return PackSources(); }));
    CAIRN_RETURN_IF_ERROR(Emit(SourcesEvent{result_.sources}));
    CAIRN_RETURN_IF_ERROR(Answer());
    return Finish();
  }

 private:
  // A sentence of the generator on its way out. Sentences without a claim ("For example:") carry no
  // verdict.
  struct Checked {
    SentenceStream::Piece piece;
    std::optional<AnswerSentence> verdict;
  };

  template <typename Stage>
  absl::Status Timed(std::string_view name, const Stage& stage) {
    CAIRN_RETURN_IF_ERROR(context_.Check());
    const absl::Time begin = absl::Now();
    const absl::Status status = stage();
    result_.timings.push_back({std::string(name), absl::Now() - begin});
    return status.ok() ? status : Annotate(status, name);
  }

  absl::Status Emit(AskEvent event) {
    if (!on_event_(event)) return Cancelled();
    return absl::OkStatus();
  }

  absl::Status Validate() const {
    if (request_.collection.empty()) return InvalidField("collection", "must not be empty");
    if (request_.question.find_first_not_of(" \t\r\n") == std::string::npos) {
      return InvalidField("question", "must not be blank");
    }
    if (request_.question.size() > static_cast<size_t>(options_.max_question_bytes)) {
      return InvalidField("question", StrCat("has ", request_.question.size(),
                                             " bytes, the limit is ", options_.max_question_bytes));
    }
    if (!IsValidUtf8(request_.question) || request_.question.find('\0') != std::string::npos) {
      return InvalidField("question", "must be UTF-8 text without NUL");
    }
    if (request_.top_k < 0 || request_.top_k > options_.max_top_k) {
      return InvalidField("top_k",
                          StrCat("is ", request_.top_k, ", must be 0 to ", options_.max_top_k));
    }
    if (request_.max_tokens < 0 || request_.max_tokens > options_.max_max_tokens) {
      return InvalidField("max_tokens", StrCat("is ", request_.max_tokens, ", must be 0 to ",
                                               options_.max_max_tokens));
    }
    if (!(request_.temperature >= 0 && request_.temperature <= 2)) {
      return InvalidField("temperature", "must be 0 to 2");
    }
    const bool session = request_.new_session || !request_.session_id.empty();
    if (request_.new_session && !request_.session_id.empty()) {
      return InvalidField("new_session", "cannot be set together with session_id");
    }
    if (session && !request_.history.empty())
      return InvalidField("history", "cannot be given with a session");
    if (session && sessions_ == nullptr)
      return absl::FailedPreconditionError("sessions are not kept here");
    for (const Message& message : request_.history) {
      if (message.role != Message::Role::kUser && message.role != Message::Role::kAssistant) {
        return InvalidField("history",
                            "holds a message that is neither the user's nor the assistant's");
      }
      if (!IsValidUtf8(message.content)) return InvalidField("history", "must be UTF-8 text");
    }
    return absl::OkStatus();
  }

  absl::Status Rewrite() {
    std::vector<Message> history = request_.history;
    if (!request_.session_id.empty()) {
      CAIRN_ASSIGN_OR_RETURN(
          const std::vector<SessionTurn> turns,
          sessions_->History(context_, request_.session_id, options_.history_turns));
      for (const SessionTurn& turn : turns) {
        history.push_back({Message::Role::kUser, turn.question});
        history.push_back({Message::Role::kAssistant, turn.answer});
      }
    } else if (const size_t limit = 2 * static_cast<size_t>(options_.history_turns);
               history.size() > limit) {
      history.erase(history.begin(), history.end() - static_cast<ptrdiff_t>(limit));
    }
    CAIRN_ASSIGN_OR_RETURN(
        result_.standalone_question,
        StandaloneQuestion(context_, model_, history, request_.question, &result_.usage));
    question_ = ExtractFeatures(result_.standalone_question);
    return absl::OkStatus();
  }

  absl::Status Retrieve(const std::string& query) {
    SearchRequest search;
    search.collection = request_.collection;
    search.query = query;
    search.top_k = request_.top_k == 0 ? options_.default_top_k : request_.top_k;
    search.equals = request_.equals;
    CAIRN_ASSIGN_OR_RETURN(passages_, retriever_->Search(context_, search));
    return absl::OkStatus();
  }

  absl::Status PackSources() {
    CAIRN_ASSIGN_OR_RETURN(const int window, model_->ContextWindow(context_));
    std::string fixed;
    for (const Message& message : AnswerPrompt(result_.language, "", result_.standalone_question)) {
      StrAppend(&fixed, message.content, "\n");
    }
    CAIRN_ASSIGN_OR_RETURN(const int fixed_tokens, model_->CountTokens(context_, fixed));
    const int max_tokens =
        request_.max_tokens == 0 ? options_.default_max_tokens : request_.max_tokens;
    const int room = window - fixed_tokens - kTemplateTokens - max_tokens;
    if (room < kMinSourceTokens) {
      return WithReason(
          InvalidField(
              "question",
              StrCat("takes ", fixed_tokens, " tokens with its instructions, and max_tokens is ",
                     max_tokens, ": a window of ", window, " tokens leaves no room for sources")),
          "CONTEXT_WINDOW_EXCEEDED");
    }
    CAIRN_ASSIGN_OR_RETURN(
        packed_, Pack(std::move(passages_), std::min(room, options_.max_source_tokens),
                      [&](std::string_view text) { return model_->CountTokens(context_, text); }));
    result_.left_out = packed_.left_out;
    if (packed_.sources.empty()) {
      return WithReason(
          absl::FailedPreconditionError(StrCat(
              "no source fits into ", std::min(room, options_.max_source_tokens), " tokens")),
          "CONTEXT_WINDOW_EXCEEDED");
    }
    for (const PackedSource& source : packed_.sources) result_.sources.push_back(source.source);
    AttributionOptions attribution;
    attribution.max_citations = options_.max_citations_per_sentence;
    attribution.max_similarity_candidates = options_.max_similarity_candidates;
    CAIRN_ASSIGN_OR_RETURN(
        Attributor attributor,
        Attributor::Create(packed_.sources, result_.standalone_question, scorer_, attribution));
    attributor_.emplace(std::move(attributor));
    return absl::OkStatus();
  }

  absl::Status Answer() {
    const absl::Time begin = absl::Now();
    ModelRequest generation;
    std::string sources;
    for (const PackedSource& source : packed_.sources)
      StrAppend(&sources, RenderSource(source), "\n");
    generation.messages = AnswerPrompt(result_.language, sources, result_.standalone_question);
    generation.max_tokens =
        request_.max_tokens == 0 ? options_.default_max_tokens : request_.max_tokens;
    generation.temperature = request_.temperature;
    generation.seed = request_.seed;

    absl::Status sentence_status;  // why our callback stopped the generation, if by an error
    const auto take = [&](std::vector<SentenceStream::Piece> pieces) {
      for (SentenceStream::Piece& piece : pieces) {
        if (stopped_) return false;
        sentence_status = Take(std::move(piece));
        if (!sentence_status.ok()) return false;
      }
      return !stopped_;
    };
    absl::StatusOr<ModelReply> reply =
        model_->Generate(context_, generation, [&](std::string_view delta) {
          return context_.Check().ok() && take(sentences_.Feed(markers_.Feed(delta)));
        });
    ++result_.usage.model_calls;
    CAIRN_RETURN_IF_ERROR(sentence_status);
    CAIRN_RETURN_IF_ERROR(context_.Check());
    // A model that we stopped may report that as cancelled.
    if (!reply.ok() && !(stopped_ && absl::IsCancelled(reply.status())))
      return Annotate(reply.status(), "generate");
    if (reply.ok()) {
      result_.usage.prompt_tokens += reply->prompt_tokens;
      result_.usage.completion_tokens += reply->completion_tokens;
      result_.truncated = reply->truncated;
    }
    if (!stopped_) {
      take(sentences_.Feed(markers_.Finish()));
      if (sentence_status.ok() && !stopped_) take(sentences_.Finish());
      CAIRN_RETURN_IF_ERROR(sentence_status);
    }
    for (const MarkerFilter::Marker& marker : markers_.markers()) {
      result_.unknown_markers +=
          marker.number < 1 || marker.number > static_cast<int>(packed_.sources.size());
    }
    if (!attributor_->degraded().empty())
      result_.degraded.push_back("similarity: " + attributor_->degraded());
    result_.timings.push_back({"generate", absl::Now() - begin - attribution_time_});
    result_.timings.push_back({"attribute", attribution_time_});
    if (!released_) return Abstain("NO_SUPPORT", NoSupportDetail());
    return absl::OkStatus();
  }

  std::string NoSupportDetail() const {
    if (refused_) return "the generator found no answer in the sources";
    if (!held_.empty() && supported_but_beside_)
      return "the sources do not hold what the question asks for";
    return "no sentence of the generated answer is supported by the sources";
  }

  // Checks one sentence of the generator and sends what may be sent.
  absl::Status Take(SentenceStream::Piece piece) {
    CAIRN_RETURN_IF_ERROR(context_.Check());
    if (IsRefusal(piece.sentence)) {  // also behind good sentences: it ends the answer
      refused_ = true;
      stopped_ = true;
      return absl::OkStatus();
    }
    const Features features = ExtractFeatures(piece.sentence);
    Checked checked{std::move(piece), std::nullopt};
    bool qualifies = false;
    if (Attributor::HasClaim(features) && checked.piece.sentence.substr(0, 3) != "```") {
      if (!said_.insert(checked.piece.sentence).second) {
        stopped_ = ++repeats_ >= kMaxRepeats;
        return absl::OkStatus();
      }
      const absl::Time begin = absl::Now();
      CAIRN_ASSIGN_OR_RETURN(
          checked.verdict,
          attributor_->Attribute(context_, checked.piece.sentence, MarkersAt(checked.piece)));
      attribution_time_ += absl::Now() - begin;
      qualifies = checked.verdict->supported && Answers(features, *checked.verdict);
      supported_but_beside_ |= checked.verdict->supported && !qualifies;
    }
    held_.push_back(std::move(checked));
    released_ |= qualifies;
    if (!released_) return absl::OkStatus();
    std::vector<Checked> ready;
    ready.swap(held_);
    for (Checked& c : ready) CAIRN_RETURN_IF_ERROR(Send(std::move(c)));
    return absl::OkStatus();
  }

  // Whether a supported sentence answers this question, and not some other.
  bool Answers(const Features& sentence, const AnswerSentence& verdict) const {
    if (!HoldsAnswerKind(AnswerKindOf(result_.standalone_question), question_, sentence))
      return false;
    std::vector<Features> read = {sentence};
    for (const Citation& citation : verdict.citations) {
      const PackedSource& source = packed_.sources[citation.source - 1];
      read.push_back(ExtractFeatures(StrCat(source.heading, "\n", source.text)));
    }
    const std::vector<std::string> terms = QuestionTerms(result_.standalone_question);
    const auto held = std::count_if(terms.begin(), terms.end(), [&](const std::string& term) {
      return std::any_of(read.begin(), read.end(),
                         [&](const Features& f) { return f.HasTerm(term); });
    });
    return static_cast<double>(held) >= kMinResponsiveness * static_cast<double>(terms.size());
  }

  // Numbers of markers at the sentence, before it or behind it.
  std::vector<int> MarkersAt(const SentenceStream::Piece& piece) const {
    std::vector<int> numbers;
    for (const MarkerFilter::Marker& marker : markers_.markers()) {
      if (marker.position + piece.blanks.size() >= piece.begin &&
          marker.position <= piece.end + 1) {
        numbers.push_back(marker.number);
      }
    }
    return numbers;
  }

  absl::Status Send(Checked checked) {
    std::string blanks = std::move(checked.piece.blanks);
    if (blanks.find('\n') == std::string::npos && skipped_blanks_.find('\n') != std::string::npos) {
      blanks = skipped_blanks_;
    }
    if (request_.strict && checked.verdict && !checked.verdict->supported) {
      ++result_.removed_sentences;
      skipped_blanks_ = blanks;
      return absl::OkStatus();
    }
    skipped_blanks_.clear();
    if (result_.answer.empty()) blanks.clear();
    result_.answer += blanks;
    const uint64_t begin = result_.answer.size();
    result_.answer += checked.piece.sentence;
    CAIRN_RETURN_IF_ERROR(Emit(TextDelta{blanks + checked.piece.sentence}));
    if (!checked.verdict) return absl::OkStatus();
    AnswerSentence sentence = std::move(*checked.verdict);
    sentence.index = static_cast<int>(result_.sentences.size());
    sentence.begin = begin;
    sentence.end = result_.answer.size();
    result_.sentences.push_back(sentence);
    return Emit(CitationEvent{std::move(sentence)});
  }

  absl::Status Abstain(std::string_view reason, std::string detail) {
    result_.abstained = true;
    result_.abstain_reason = std::string(reason);
    result_.abstain_detail = std::move(detail);
    result_.answer = std::string(AbstentionText(result_.language));
    return Emit(TextDelta{result_.answer});
  }

  absl::StatusOr<AskResult> Finish() {
    CAIRN_RETURN_IF_ERROR(context_.Check());
    result_.session_id = request_.session_id;
    if (request_.new_session) {
      CAIRN_ASSIGN_OR_RETURN(result_.session_id, sessions_->Create(context_, request_.collection));
    }
    if (!result_.session_id.empty()) {
      const SessionTurn turn{request_.question, result_.answer, result_.abstained,
                             result_.sentences, absl::Now()};
      CAIRN_RETURN_IF_ERROR(sessions_->Append(context_, result_.session_id, turn));
    }
    CAIRN_RETURN_IF_ERROR(Emit(FinalEvent{result_}));
    return std::move(result_);
  }

  Model* const model_;
  Retriever* const retriever_;
  SupportScorer* const scorer_;
  SessionStore* const sessions_;
  const AskOptions& options_;
  const RequestContext& context_;
  const AskRequest& request_;
  const AskEventCallback& on_event_;

  AskResult result_;
  Features question_;
  std::vector<Passage> passages_;
  Packed packed_;
  std::optional<Attributor> attributor_;

  MarkerFilter markers_;
  SentenceStream sentences_;
  std::vector<Checked> held_;  // until a first sentence qualifies
  bool released_ = false;
  bool stopped_ = false;  // no more of the generator's text is wanted
  bool refused_ = false;
  bool supported_but_beside_ = false;
  std::set<std::string> said_;
  int repeats_ = 0;
  std::string skipped_blanks_;  // of removed sentences
  absl::Duration attribution_time_;
};

}  // namespace

AskPipeline::AskPipeline(Model* model, Retriever* retriever, SupportScorer* scorer,
                         SessionStore* sessions, AskOptions options)
    : model_(model),
      retriever_(retriever),
      scorer_(scorer),
      sessions_(sessions),
      options_(options) {}

absl::StatusOr<AskResult> AskPipeline::Ask(const RequestContext& context, const AskRequest& request,
                                           const AskEventCallback& on_event) const {
  return AskRun(model_, retriever_, scorer_, sessions_, options_, context, request, on_event).Run();
}

}  // namespace cairn::agent
