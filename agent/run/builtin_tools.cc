#include "agent/run/builtin_tools.h"

#include <utility>

#include "agent/run/calculator.h"
#include "agent/schema/json_text.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace cairn::agent {
namespace {

constexpr int kDefaultTopK = 4;
constexpr size_t kSearchTextBytes = 700;  // of each passage
constexpr size_t kChunkTextBytes = 4000;

std::string Cut(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  return StrCat(text.substr(0, Utf8Floor(text, max_bytes)), "... (cut)");
}

std::string Heading(const Passage& p) {
  std::string heading = p.document_id;
  for (const std::string& part : p.heading_path) StrAppend(&heading, " > ", part);
  return heading;
}

class SearchTool : public Tool {
 public:
  SearchTool(Retriever* retriever, std::string collection)
      : retriever_(retriever), collection_(std::move(collection)) {}
  std::string_view name() const override { return "search"; }
  std::string_view description() const override {
    return "Searches the documents. Returns passages with their chunk_id, document and text.";
  }
  std::string_view parameters_schema() const override {
    return R"({"type": "object", "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "what to look for, in plain words"},
        "top_k": {"type": "integer", "minimum": 1, "maximum": 10, "description": "number of passages, 4 by default"}},
        "required": ["query"], "additionalProperties": false})";
  }
  absl::Duration timeout() const override { return absl::Seconds(30); }

  absl::StatusOr<std::string> Call(const RequestContext& context,
                                   std::string_view arguments_json) override {
    CAIRN_ASSIGN_OR_RETURN(const Json arguments, ParseJson(arguments_json));
    SearchRequest request;
    request.collection = collection_;
    request.query = arguments.at("query").get<std::string>();
    request.top_k = arguments.value("top_k", kDefaultTopK);
    CAIRN_ASSIGN_OR_RETURN(const std::vector<Passage> passages,
                           retriever_->Search(context, request));
    // An empty result that looks like an empty list makes models repeat the call.
    if (passages.empty()) {
      return "The search worked and found nothing. Try other words once; if that finds nothing "
             "either, the documents do "
             "not hold it.";
    }
    std::string out;
    int number = 0;
    for (const Passage& p : passages) {
      StrAppend(&out, "[", ++number, "] chunk_id: ", p.chunk_id, "\ndocument: ", Heading(p), "\n",
                Cut(p.text, kSearchTextBytes), "\n\n");
    }
    return out;
  }

 private:
  Retriever* const retriever_;
  const std::string collection_;
};

class FetchChunkTool : public Tool {
 public:
  FetchChunkTool(Retriever* retriever, std::string collection)
      : retriever_(retriever), collection_(std::move(collection)) {}
  std::string_view name() const override { return "fetch_chunk"; }
  std::string_view description() const override {
    return "Returns the whole text of one passage that search has found.";
  }
  std::string_view parameters_schema() const override {
    return R"({"type": "object", "properties": {
        "chunk_id": {"type": "string", "minLength": 1, "maxLength": 300, "description": "as search returned it"}},
        "required": ["chunk_id"], "additionalProperties": false})";
  }
  absl::Duration timeout() const override { return absl::Seconds(10); }

  absl::StatusOr<std::string> Call(const RequestContext& context,
                                   std::string_view arguments_json) override {
    CAIRN_ASSIGN_OR_RETURN(const Json arguments, ParseJson(arguments_json));
    CAIRN_ASSIGN_OR_RETURN(
        const Passage passage,
        retriever_->FetchChunk(context, collection_,
                               arguments.at("chunk_id").get_ref<const std::string&>()));
    return StrCat("document: ", Heading(passage), "\n", Cut(passage.text, kChunkTextBytes));
  }

 private:
  Retriever* const retriever_;
  const std::string collection_;
};

class CalculatorTool : public Tool {
 public:
  std::string_view name() const override { return "calculator"; }
  std::string_view description() const override {
    return "Calculates exactly with + - * / % ^ and parentheses. Returns the result.";
  }
  std::string_view parameters_schema() const override {
    return R"j({"type": "object", "properties": {
        "expression": {"type": "string", "minLength": 1, "maxLength": 500, "description": "for example (2 + 3) * 4"}},
        "required": ["expression"], "additionalProperties": false})j";
  }
  absl::Duration timeout() const override { return absl::Seconds(5); }

  absl::StatusOr<std::string> Call(const RequestContext&,
                                   std::string_view arguments_json) override {
    CAIRN_ASSIGN_OR_RETURN(const Json arguments, ParseJson(arguments_json));
    return Calculate(arguments.at("expression").get_ref<const std::string&>());
  }
};

}  // namespace

std::vector<std::unique_ptr<Tool>> BuiltinTools(Retriever* retriever, std::string collection) {
  std::vector<std::unique_ptr<Tool>> tools;
  tools.push_back(std::make_unique<SearchTool>(retriever, collection));
  tools.push_back(std::make_unique<FetchChunkTool>(retriever, std::move(collection)));
  tools.push_back(std::make_unique<CalculatorTool>());
  return tools;
}

}  // namespace cairn::agent
