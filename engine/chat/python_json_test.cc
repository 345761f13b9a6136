#include "engine/chat/python_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::engine {
namespace {

using ::testing::ElementsAre;

// Values from Python 3: repr(x).
TEST(PythonJsonTest, FloatsLookAsInPython) {
  EXPECT_EQ(PythonFloat(0.0), "0.0");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(1.0), "1.0");
  EXPECT_EQ(PythonFloat(-12.5), "-12.5");
  EXPECT_EQ(PythonFloat(0.1), "0.1");
  EXPECT_EQ(PythonFloat(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(0.00001), "1e-05");
  EXPECT_EQ(PythonFloat(1.25e-7), "1.25e-07");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(PythonFloat(1e100), "1e+100");
  EXPECT_EQ(PythonFloat(5e-324), "5e-324");
  EXPECT_EQ(PythonFloat(1.7976931348623157e308), "1.7976931348623157e+308");
}

// json.dumps(json.loads(text), ensure_ascii=False).
TEST(PythonJsonTest, WritesAsPythonDoes) {
  EXPECT_EQ(*PythonJsonObject(" {\"b\":1,\"a\" : [true,false,null,\"x\"],\"c\":{}} "),
            "{\"b\": 1, \"a\": [true, false, null, \"x\"], \"c\": {}}");
  EXPECT_EQ(*PythonJsonObject(R"({"k":"\u4f60\ud83d\ude00\/\u0001\u007f\"\\\n"})"),
            "{\"k\": \"\xE4\xBD\xA0\xF0\x9F\x98\x80/\\u0001\x7F\\\"\\\\\\n\"}");
  EXPECT_EQ(*PythonJsonObject(R"({"a":1,"b":2,"a":3})"), R"({"a": 3, "b": 2})");
  EXPECT_EQ(*PythonJsonObject(R"({"n":[-1,18446744073709551615,1.50,1E5]})"),
            R"({"n": [-1, 18446744073709551615, 1.5, 100000.0]})");
  EXPECT_THAT(*PythonJsonElements(R"([1,{"a":[]},"b"])"), ElementsAre("1", "{\"a\": []}", "\"b\""));
  EXPECT_TRUE(PythonJsonElements("[]")->empty());
}

TEST(PythonJsonTest, RefusesWhatIsNoJson) {
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("{}x"), std::string("{\"a\":1,}"),
        std::string("[1]"), std::string("nul"), std::string("{\"a\":\"\xFF\"}"),
        std::string("{\"a\":\"\\ud800\"}"), std::string("{\"a\":1e999}"), std::string("{'a':1}"),
        std::string("{\"a\":") + std::string(100000, '[')}) {
    EXPECT_EQ(PythonJsonObject(bad).status().code(), absl::StatusCode::kInvalidArgument)
        << bad.substr(0, 40);
  }
  EXPECT_FALSE(PythonJsonElements("{}").ok());
  EXPECT_FALSE(PythonJsonElements(std::string(65, '[') + std::string(65, ']')).ok());
  EXPECT_TRUE(PythonJsonElements(std::string(64, '[') + std::string(64, ']')).ok());
}

}  // namespace
}  // namespace cairn::engine
