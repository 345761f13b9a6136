// Scripted fakes of the ports, for tests.
#ifndef CAIRN_AGENT_TESTING_FAKES_H_
#define CAIRN_AGENT_TESTING_FAKES_H_

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/ports.h"
#include "common/strings.h"

namespace cairn::agent {

// Replies in order, streamed in pieces of `delta_bytes`. A token is four bytes.
class ScriptedModel : public Model {
 public:
  absl::StatusOr<ModelReply> Generate(const RequestContext& context, const ModelRequest& request,
                                      const TextCallback& on_text) override {
    requests.push_back(request);
    if (before_reply) before_reply();
    CAIRN_RETURN_IF_ERROR(context.Check());
    if (!error.ok()) return error;
    if (replies.empty()) return absl::InternalError("the script has no more replies");
    const std::string text =
        replies.size() == 1 && repeat_last ? replies.front() : std::move(replies.front());
    if (!(replies.size() == 1 && repeat_last)) replies.erase(replies.begin());
    ModelReply reply;
    reply.truncated = truncated;
    for (const Message& m : request.messages) reply.prompt_tokens += Tokens(m.content);
    for (size_t i = 0; i < text.size(); i += delta_bytes) {
      CAIRN_RETURN_IF_ERROR(context.Check());
      reply.text += text.substr(i, delta_bytes);
      if (!on_text(std::string_view(text).substr(i, delta_bytes))) {
        stopped_by_caller = true;
        break;
      }
    }
    reply.completion_tokens = Tokens(reply.text);
    return reply;
  }
  absl::StatusOr<int> CountTokens(const RequestContext&, std::string_view text) override {
    return Tokens(text);
  }
  absl::StatusOr<int> ContextWindow(const RequestContext&) override { return window; }

  static int Tokens(std::string_view text) { return static_cast<int>((text.size() + 3) / 4); }

  std::vector<std::string> replies;
  bool repeat_last = false;
  size_t delta_bytes = 5;
  bool truncated = false;
  int window = 4096;
  absl::Status error;
  std::function<void()> before_reply;
  std::vector<ModelRequest> requests;
  bool stopped_by_caller = false;
};

class FakeRetriever : public Retriever {
 public:
  absl::StatusOr<std::vector<Passage>> Search(const RequestContext&,
                                              const SearchRequest& request) override {
    searches.push_back(request);
    if (!error.ok()) return error;
    const auto special = by_query.find(request.query);
    std::vector<Passage> found = special == by_query.end() ? passages : special->second;
    if (found.size() > static_cast<size_t>(request.top_k)) found.resize(request.top_k);
    return found;
  }
  absl::StatusOr<Passage> FetchChunk(const RequestContext&, std::string_view,
                                     std::string_view chunk_id) override {
    for (const Passage& p : passages) {
      if (p.chunk_id == chunk_id) return p;
    }
    return absl::NotFoundError(StrCat("no chunk ", chunk_id));
  }

  std::vector<Passage> passages;
  std::map<std::string, std::vector<Passage>> by_query;  // in place of `passages`
  std::vector<SearchRequest> searches;
  absl::Status error;
};

// A passage whose text is its source, at `span_begin` of its document.
inline Passage PlainPassage(std::string document, uint32_t ordinal, std::string text,
                            uint64_t span_begin = 100) {
  Passage p;
  p.chunk_id = StrCat(document, "#", ordinal);
  p.document_id = document;
  p.version = 3;
  p.title = document;
  p.text = text;
  p.source = text;
  p.span_begin = span_begin;
  p.span_end = span_begin + text.size();
  p.runs = {{0, text.size(), span_begin, text.size()}};
  p.ordinal = ordinal;
  p.language = "en";
  p.score = 0.9 - 0.1 * ordinal;
  p.vector_score = 0.86;
  return p;
}

}  // namespace cairn::agent

#endif  // CAIRN_AGENT_TESTING_FAKES_H_
