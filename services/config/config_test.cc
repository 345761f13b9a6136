#include "services/config/config.h"

#include <string>

#include "common/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/config/keys.h"

namespace cairn::services {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Config, SampleIsTheDefaults) {
  const auto sample = ReadFile(CAIRN_SOURCE_DIR "/deploy/cairn.sample.yaml");
  ASSERT_TRUE(sample.ok()) << sample.status();
  EXPECT_EQ(*sample, PrintConfig(ServerConfig()))
      << "print it anew: cairn serve --print-config > deploy/cairn.sample.yaml";
  EXPECT_TRUE(CheckConfig(ServerConfig()).ok());
}

TEST(Config, WhatIsPrintedReadsBackTheSame) {
  ServerConfig config;
  ASSERT_TRUE(ReadConfigText("roles: [agent, retrieval]\n"
                             "data_dir: 'a \"quoted\" \\ path'\n"
                             "retrieval: {vector_weight: 0.25, sync_commits: false}\n"
                             "http:\n  cors_origins: ['*', 'https://a.example']\n",
                             "f", &config)
                  .ok());
  EXPECT_EQ(config.data_dir, "a \"quoted\" \\ path");
  EXPECT_EQ(config.retrieval.vector_weight, 0.25);
  ServerConfig again;
  ASSERT_TRUE(ReadConfigText(PrintConfig(config), "printed", &again).ok());
  EXPECT_EQ(PrintConfig(again), PrintConfig(config));
}

TEST(Config, EveryKeyHasItsOwnNameAndCanBeSetToWhatItPrints) {
  ServerConfig config;
  for (const ConfigKey& key : ConfigKeys()) {
    EXPECT_EQ(FindConfigKey(key.name), &key) << key.name;
    ServerConfig read;
    const size_t dot = key.name.find('.');
    const std::string yaml = dot == std::string::npos
                                 ? key.name + ": " + key.print(config)
                                 : key.name.substr(0, dot) + ":\n  " + key.name.substr(dot + 1) +
                                       ": " + key.print(config);
    EXPECT_TRUE(ReadConfigText(yaml, "f", &read).ok()) << yaml;
  }
}

TEST(Config, MistakesAreRefusedWithTheirLine) {
  const struct {
    const char* yaml;
    const char* error;
  } kCases[] = {
      {"listen: 127.0.0.1:1\nlisten_on: x\n", "f:2: unknown key listen_on"},
      {"limits:\n  max_uploads: 3\n  max_upload: 3\n", "f:3: unknown key limits.max_upload"},
      {"\n\nlimits:\n  max_uploads: many\n", "f:4: limits.max_uploads is no whole number"},
      {"limits: {max_uploads: -1}", "f:1: limits.max_uploads must be 1 to 1024, got -1"},
      {"limits: {max_uploads: 99999999999999999999}", "f:1: limits.max_uploads is no whole number"},
      {"limits: {max_uploads: 1.5}", "f:1: limits.max_uploads is no whole number"},
      {"limits: {max_uploads: [1]}", "f:1: limits.max_uploads must be a single value"},
      {"limits: 3", "f:1: limits is a group of keys"},
      {"retrieval: {vector_weight: .nan}", "f:1: retrieval.vector_weight is no number"},
      {"retrieval: {vector_weight: 1.01}", "f:1: retrieval.vector_weight must be 0 to 1"},
      {"retrieval: {sync_commits: yes}", "f:1: retrieval.sync_commits must be true or false"},
      {"roles: agent", "f:1: roles must be a list"},
      {"roles:\n- agent\n- wizard\n", "must be one of inference, ingest"},
      {"listen: nowhere", "f:1: listen must be HOST:PORT"},
      {"listen: 'a:70000'", "f:1: listen must be HOST:PORT"},
      {"log: {level: loud}", "f:1: log.level must be one of"},
      {"listen: 'a:1'\nlisten: 'b:2'\n", "f:2: key listen is there twice"},
      {"- a\n- b\n", "f:1: a configuration is a map of keys"},
      {"just text", "f:1: a configuration is a map of keys"},
      {"a: [1, 2\nb: 3", "f:2: "},
      {"{[1]: 2}", "f:1: a key must be a word"},
      {"\x01\x02", "f:1: "},
  };
  for (const auto& c : kCases) {
    ServerConfig config;
    const absl::Status status = ReadConfigText(c.yaml, "f", &config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.yaml;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.error)) << c.yaml;
  }
  ServerConfig config;
  EXPECT_TRUE(ReadConfigText("", "f", &config).ok());
  EXPECT_TRUE(ReadConfigText("# nothing but a comment\n", "f", &config).ok());
  EXPECT_FALSE(ReadConfigFile("/no/such/file", &config).ok());
}

TEST(Config, EnvironmentAndKeysOverride) {
  ServerConfig config;
  ASSERT_TRUE(ReadConfigText("limits: {max_uploads: 3}", "f", &config).ok());
  ASSERT_TRUE(ReadConfigEnvironment({"CAIRN_LIMITS_MAX_UPLOADS=4", "CAIRN_ROLES=agent, gateway",
                                     "CAIRN_HOME=/x", "CAIRN_TEST_DATA=/y", "PATH=/z"},
                                    &config)
                  .ok());
  EXPECT_EQ(config.limits.max_uploads, 4);
  EXPECT_EQ(config.roles, (std::vector<std::string>{"agent", "gateway"}));
  ASSERT_TRUE(SetConfigKey("limits.max_uploads", "5", &config).ok());
  EXPECT_EQ(config.limits.max_uploads, 5);
  EXPECT_FALSE(SetConfigKey("limits.nope", "5", &config).ok());
  const absl::Status status = ReadConfigEnvironment({"CAIRN_LIMITS_MAX_UPLOADS=x"}, &config);
  EXPECT_THAT(std::string(status.message()), StartsWith("CAIRN_LIMITS_MAX_UPLOADS: "));
}

TEST(Config, RolesKnowWhatTheyNeedAndOpenDoorsNeedAKey) {
  ServerConfig config;
  config.roles = {"agent"};
  EXPECT_THAT(std::string(CheckConfig(config).message()), HasSubstr("addresses.inference"));
  config.addresses.inference = "h:1";
  config.addresses.retrieval = "h:2";
  EXPECT_TRUE(CheckConfig(config).ok());
  config = ServerConfig();
  config.http.listen = "0.0.0.0:7480";
  EXPECT_THAT(std::string(CheckConfig(config).message()), HasSubstr("http.api_key"));
  config.http.api_key = "secret";
  EXPECT_TRUE(CheckConfig(config).ok());
  EXPECT_EQ(PrintConfig(config).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace cairn::services
