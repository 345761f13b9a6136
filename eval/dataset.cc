#include "eval/dataset.h"

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/strings.h"

namespace cairn::eval {
namespace {

using nlohmann::json;

absl::Status LineError(const std::string& path, size_t line, std::string_view what) {
  return absl::InvalidArgumentError(StrCat(path, ":", line, ": ", what));
}

absl::Status ForEachLine(const std::string& path,
                         const std::function<absl::Status(const std::string&, size_t)>& visit) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(StrCat("cannot open ", path));
  std::string line;
  for (size_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) CAIRN_RETURN_IF_ERROR(visit(line, number));
  }
  return absl::OkStatus();
}

// A string member, or "" when absent and not required.
absl::StatusOr<std::string> Member(const json& object, const char* key, bool required) {
  const auto it = object.find(key);
  if (it == object.end() && !required) return std::string();
  if (it == object.end() || !it->is_string()) {
    return absl::InvalidArgumentError(StrCat("\"", key, "\" is missing or not a string"));
  }
  return it->get<std::string>();
}

absl::Status ForEachObject(const std::string& path,
                           const std::function<absl::Status(const json&)>& visit) {
  return ForEachLine(path, [&](const std::string& line, size_t number) -> absl::Status {
    const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return LineError(path, number, "not a JSON object");
    absl::Status status = visit(object);
    return status.ok() ? status : LineError(path, number, ToStd(status.message()));
  });
}

}  // namespace

absl::StatusOr<Dataset> LoadDataset(const std::string& dir, size_t* missing_documents) {
  Dataset data;
  std::set<std::string> document_ids;
  CAIRN_RETURN_IF_ERROR(
      ForEachObject(dir + "/corpus.jsonl", [&](const json& object) -> absl::Status {
        CorpusDocument document;
        CAIRN_ASSIGN_OR_RETURN(document.id, Member(object, "_id", true));
        CAIRN_ASSIGN_OR_RETURN(document.title, Member(object, "title", false));
        CAIRN_ASSIGN_OR_RETURN(document.text, Member(object, "text", true));
        if (!document_ids.insert(document.id).second) {
          return absl::InvalidArgumentError(StrCat("document ", document.id, " is there twice"));
        }
        data.corpus.push_back(std::move(document));
        return absl::OkStatus();
      }));

  const std::string qrels_path = dir + "/qrels.tsv";
  *missing_documents = 0;
  CAIRN_RETURN_IF_ERROR(
      ForEachLine(qrels_path, [&](const std::string& line, size_t number) -> absl::Status {
        std::vector<std::string> columns = absl::StrSplit(line, '\t');
        if (number == 1 && columns[0] == "query-id") return absl::OkStatus();
        int relevance = 0;
        if (columns.size() != 3 || !absl::SimpleAtoi(columns[2], &relevance)) {
          return LineError(qrels_path, number, "expected query id, document id and a whole number");
        }
        if (!document_ids.count(columns[1])) ++*missing_documents;
        data.qrels[columns[0]][columns[1]] = relevance;
        return absl::OkStatus();
      }));

  std::set<std::string> seen;
  CAIRN_RETURN_IF_ERROR(
      ForEachObject(dir + "/queries.jsonl", [&](const json& object) -> absl::Status {
        Query query;
        CAIRN_ASSIGN_OR_RETURN(query.id, Member(object, "_id", true));
        CAIRN_ASSIGN_OR_RETURN(query.text, Member(object, "text", true));
        if (data.qrels.count(query.id) && seen.insert(query.id).second)
          data.queries.push_back(std::move(query));
        return absl::OkStatus();
      }));
  for (const auto& [id, judgements] : data.qrels) {
    if (!seen.count(id)) {
      return absl::InvalidArgumentError(StrCat(qrels_path, " judges query ", id, ", which ", dir,
                                               "/queries.jsonl does not have"));
    }
  }
  if (data.queries.empty()) return absl::InvalidArgumentError(StrCat(dir, " has no judged query"));
  return data;
}

}  // namespace cairn::eval
