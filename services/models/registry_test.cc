#include "services/models/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/file.h"
#include "common/strings.h"

namespace cairn::services {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModelRegistryTest, TheManifestOfTheProgramIsSound) {
  const auto registry = ModelRegistry::Load();
  ASSERT_TRUE(registry.ok()) << registry.status();
  for (const std::string_view set : {"test", "small", "default"}) {
    const auto entries = registry->Set(set);
    ASSERT_TRUE(entries.ok()) << entries.status();
    bool generator = false, embedder = false;
    for (const ModelEntry* entry : *entries) {
      generator |= entry->role == ModelRole::kGenerator;
      embedder |= entry->role == ModelRole::kEmbedder;
      EXPECT_NE(entry->license, "Gemma") << "fetched on request only";
    }
    EXPECT_TRUE(generator && embedder) << set;
  }
  const ModelEntry* e5 = registry->Find("multilingual-e5-small").value();
  EXPECT_EQ(e5->encoder.query_prefix, "query: ");
  EXPECT_EQ(e5->sources[0].files[0].bytes, 71622400);
  EXPECT_THAT(std::string(registry->Find("nothing").status().message()), HasSubstr("smollm2-135m"));
  EXPECT_THAT(std::string(registry->Set("nothing").status().message()), HasSubstr("default"));
}

constexpr std::string_view kManifest = R"({
  "format": 1, "sets": {"test": ["tiny"]},
  "models": [{"name": "tiny", "title": "Tiny", "role": "generator", "license": "MIT", "origin": "https://example.com",
    "languages": ["en"], "sources": [{"kind": "pypi", "format": "gguf", "files": [{"name": "model.gguf", "bytes": 3,
      "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "parts": [{"package": "p",
      "version": "1", "path": "p/m", "bytes": 3,
      "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]}]}]}]})";

TEST(ModelRegistryTest, BadManifestsNameTheField) {
  ASSERT_TRUE(ModelRegistry::Parse(kManifest, "/none").ok());
  const struct {
    std::string_view from, to, message;
  } kCases[] = {
      {"\"format\": 1", "\"format\": 2", "format"},
      {"\"role\": \"generator\"", "\"role\": \"poet\"", "models[0].role"},
      {"\"role\": \"generator\"", "\"role\": \"embedder\"", "encoder"},
      {"\"name\": \"tiny\"", "\"name\": \"../tiny\"", "models[0].name"},
      {"\"name\": \"model.gguf\"", "\"name\": \"a/b\"", "files[0].name"},
      {"\"bytes\": 3,\n      \"sha256\"", "\"bytes\": -3, \"sha256\"", "bytes"},
      {"\"bytes\": 3,\n      \"sha256\"", "\"bytes\": 4, \"sha256\"", "add up to"},
      {"ba7816bf", "BA7816BF", "sha256"},
      {"\"kind\": \"pypi\"", "\"kind\": \"ftp\"", "kind"},
      {"[\"tiny\"]", "[\"other\"]", "sets.test"},
      {"\"license\": \"MIT\", ", "", "license is missing"},
      {"\"languages\": [\"en\"]", "\"languages\": [1]", "languages"},
      {"{\n  \"format\"", "[{\"format\"", "no JSON"},
  };
  for (const auto& test : kCases) {
    std::string text(kManifest);
    const size_t at = text.find(test.from);
    ASSERT_NE(at, std::string::npos) << test.from;
    text.replace(at, test.from.size(), test.to);
    const auto registry = ModelRegistry::Parse(text, "/none");
    EXPECT_EQ(registry.status().code(), absl::StatusCode::kInvalidArgument) << test.to;
    EXPECT_THAT(std::string(registry.status().message()), HasSubstr(test.message)) << test.to;
  }
}

TEST(ModelRegistryTest, FindsWhatIsOnTheMachine) {
  const std::string dir = StrCat(::testing::TempDir(), "/registry_test.", getpid());
  const auto registry = ModelRegistry::Parse(kManifest, dir).value();
  const auto missing = registry.PathOf("tiny");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(missing.status()), "MODEL_NOT_FETCHED");
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("cairn models fetch tiny"));
  EXPECT_FALSE(registry.IsPresent("tiny"));
  EXPECT_EQ(registry.PathOf("unheard-of").status().code(), absl::StatusCode::kNotFound);

  for (const char* name : {"tiny", "my-own"}) {
    std::filesystem::create_directories(StrCat(dir, "/", name));
    std::ofstream(StrCat(dir, "/", name, "/model.gguf")) << "abc";
    EXPECT_EQ(registry.PathOf(name).value(), StrCat(dir, "/", name, "/model.gguf"));
  }
  EXPECT_EQ(registry.PathOf(dir + "/my-own/model.gguf").value(), dir + "/my-own/model.gguf");
  EXPECT_FALSE(
      registry.PathOf("../" + std::filesystem::path(dir).filename().string() + "/tiny").ok());
  EXPECT_FALSE(registry.PathOf("").ok());
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace cairn::services
