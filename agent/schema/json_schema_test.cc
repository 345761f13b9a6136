#include "agent/schema/json_schema.h"

#include <cstdlib>
#include <filesystem>
#include <set>

#include "agent/schema/json_text.h"
#include "common/file.h"
#include "common/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cairn::agent {
namespace {

using ::testing::HasSubstr;

// Every file of the published suite whose keywords we say we support: each group must either
// compile and agree on every instance, or be refused because it uses something that the header says
// is not supported.
TEST(JsonSchemaTest, AgreesWithThePublishedSuite) {
  const char* root = std::getenv("CAIRN_TEST_DATA");
  if (root == nullptr) GTEST_SKIP() << "CAIRN_TEST_DATA is not set";
  const std::set<std::string> files = {"additionalProperties",
                                       "allOf",
                                       "anyOf",
                                       "boolean_schema",
                                       "const",
                                       "contains",
                                       "content",
                                       "default",
                                       "defs",
                                       "dependentRequired",
                                       "dependentSchemas",
                                       "enum",
                                       "exclusiveMaximum",
                                       "exclusiveMinimum",
                                       "format",
                                       "if-then-else",
                                       "infinite-loop-detection",
                                       "items",
                                       "maxContains",
                                       "maxItems",
                                       "maxLength",
                                       "maxProperties",
                                       "maximum",
                                       "minContains",
                                       "minItems",
                                       "minLength",
                                       "minProperties",
                                       "minimum",
                                       "multipleOf",
                                       "not",
                                       "oneOf",
                                       "pattern",
                                       "patternProperties",
                                       "prefixItems",
                                       "properties",
                                       "propertyNames",
                                       "ref",
                                       "required",
                                       "type",
                                       "uniqueItems"};
  int instances = 0;
  int refused = 0;
  for (const std::string& name : files) {
    const std::string path =
        StrCat(root, "/json-schema-test-suite/tests/draft2020-12/", name, ".json");
    auto text = ReadFile(path);
    ASSERT_TRUE(text.ok()) << text.status();
    auto groups = ParseJson(*text, 200);
    ASSERT_TRUE(groups.ok()) << path << groups.status();
    for (const Json& group : *groups) {
      auto schema = JsonSchema::Compile(DumpJson(group["schema"]));
      if (!schema.ok()) {
        // Only for references beyond the schema, unevaluated*, ids and patterns of ECMA 262 alone.
        EXPECT_THAT(std::string(schema.status().message()),
                    ::testing::AnyOf(HasSubstr("not supported"), HasSubstr("are supported, not"),
                                     HasSubstr("pattern")))
            << name << ": " << group["description"];
        ++refused;
        continue;
      }
      for (const Json& test : group["tests"]) {
        auto violations = (*schema)->Validate(DumpJson(test["data"]));
        ASSERT_TRUE(violations.ok()) << violations.status();
        EXPECT_EQ(violations->empty(), test["valid"].get<bool>())
            << name << ": " << group["description"] << ": " << test["description"];
        ++instances;
      }
    }
  }
  RecordProperty("instances", instances);
  RecordProperty("groups_refused", refused);
  std::printf("agreed on %d instances; %d schemas refused\n", instances, refused);
  EXPECT_GE(instances, 967);
  EXPECT_LE(refused, 21);
}

TEST(JsonSchemaTest, RefusesWhatItWouldNotAssert) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"unevaluatedProperties": false})", "unevaluatedProperties"},
      {R"({"properties": {"a": {"typ": "string"}}})", "/properties/a/typ"},
      {R"({"$ref": "http://example.com/x"})", "$ref"},
      {R"({"$ref": "#/$defs/missing"})", "nothing at"},
      {R"({"$ref": "#anchor"})", "$ref"},
      {R"({"$ref": "#/%zz"})", "$ref"},
      {R"j({"pattern": "(?=x)"})j", "pattern"},
      {R"j({"pattern": "("})j", "pattern"},
      {R"({"type": "text"})", "unknown type"},
      {R"({"type": []})", "empty"},
      {R"({"required": "a"})", "array of strings"},
      {R"({"minLength": -1})", "non-negative"},
      {R"({"multipleOf": 0})", "greater than 0"},
      {R"({"allOf": []})", "non-empty"},
      {R"({"items": [true]})", "a schema is"},
      {R"({"$ref": "#"})", "back to itself"},
      {R"({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#"}}}})",
       "back to itself"},
      {"[]", "a schema is"},
      {"{", "not valid JSON"},
  };
  for (const auto& [schema, expected] : cases) {
    auto compiled = JsonSchema::Compile(schema);
    ASSERT_FALSE(compiled.ok()) << schema;
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(compiled.status().message()), HasSubstr(expected)) << schema;
  }
}

std::string Explain(const char* schema, const char* instance) {
  auto compiled = JsonSchema::Compile(schema);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  auto violations = (*compiled)->Validate(instance);
  if (!violations.ok()) return std::string(violations.status().message());
  std::string text;
  for (const auto& v : *violations) text += v.path + ": " + v.message + "\n";
  return text;
}

TEST(JsonSchemaTest, SaysWhatIsWrongAndWhere) {
  const char* schema =
      R"({"type": "object", "properties": {"query": {"type": "string", "minLength": 1},
      "top_k": {"type": "integer", "minimum": 1, "maximum": 20}, "tags": {"items": {"enum": ["a", "b"]}}},
      "required": ["query"], "additionalProperties": false})";
  EXPECT_EQ(Explain(schema, R"({"query": "x", "top_k": 3, "tags": ["a"]})"), "");
  EXPECT_EQ(Explain(schema, R"({"querry": "x"})"),
            ": property \"query\" is missing\n"
            ": unexpected property \"querry\"; the known ones are: query, tags, top_k\n");
  EXPECT_EQ(Explain(schema, R"({"query": "", "top_k": "3"})"),
            "/query: must have at least 1 characters, not 0\n/top_k: must be of type integer, not "
            "string\n");
  EXPECT_EQ(Explain(schema, R"({"query": "x", "top_k": 21, "tags": ["c"]})"),
            "/tags/0: must be one of [\"a\",\"b\"], not \"c\"\n/top_k: must be at most 20\n");
  EXPECT_EQ(Explain(schema, "[]"), ": must be of type object, not array\n");
  EXPECT_EQ(Explain(schema, R"({"query": "x", "query": "y"})"), "duplicate key \"query\"");
  EXPECT_THAT(Explain(schema, R"({"query": "x"} {})"), HasSubstr("not valid JSON at byte"));
  EXPECT_THAT(Explain(schema, ""), HasSubstr("not valid JSON"));
}

TEST(JsonSchemaTest, EchoAndNumberOfViolationsAreBounded) {
  const std::string huge = "\"" + std::string(100000, 'x') + "\"";
  EXPECT_LT(Explain(R"({"enum": ["a"]})", huge.c_str()).size(), 200u);
  std::string array = "[";
  for (int i = 0; i < 1000; ++i) array += "1,";
  array += "1]";
  auto schema = JsonSchema::Compile(R"({"items": {"type": "string"}})");
  EXPECT_EQ((*schema)->Validate(array)->size(), static_cast<size_t>(JsonSchema::kMaxViolations));
}

TEST(JsonSchemaTest, DeepNestingIsRefused) {
  auto schema = JsonSchema::Compile(R"({"items": {"$ref": "#"}})");
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_FALSE((*schema)->Validate(deep).ok());
  const std::string shallow = std::string(60, '[') + std::string(60, ']');
  EXPECT_TRUE((*schema)->Validate(shallow)->empty());
}

TEST(JsonSchemaTest, LargeIntegersCompareExactly) {
  EXPECT_NE(Explain(R"({"const": 18446744073709551615})", "-1"), "");
  EXPECT_NE(Explain(R"({"const": 9007199254740993})", "9007199254740992"), "");
  EXPECT_EQ(Explain(R"({"const": 1})", "1.0"), "");
}

TEST(JsonTextTest, ObjectExtent) {
  EXPECT_EQ(JsonObjectExtent(R"({"a": "}"} tail)"), 10u);
  EXPECT_EQ(JsonObjectExtent(R"({"a": "\"}"})"), 12u);
  EXPECT_EQ(JsonObjectExtent(R"({"a": {)"), 0u);
  EXPECT_EQ(JsonObjectExtent("x{}"), 0u);
  EXPECT_EQ(JsonObjectExtent(R"({"a\)"), 0u);
}

}  // namespace
}  // namespace cairn::agent
