#include "services/gateway/chat_request.h"

#include <gtest/gtest.h>

namespace cairn::services {
namespace {

TEST(ChatRequestTest, ReadsWhatClientsSend) {
  auto request = ParseChatRequest(R"({"model":"m","messages":[{"role":"developer","content":"s"},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],
      "max_completion_tokens":7,"stop":"x","stream":true,"stream_options":{"include_usage":true},
      "temperature":null,"n":1,"frequency_penalty":0.5,"presence_penalty":-1,
      "logit_bias":{"7":-100,"12":2.5},"response_format":{"type":"text"},"seed":-1,"unknown":1})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->messages[0].role, "system");
  EXPECT_EQ(request->messages[1].content, "ab");
  EXPECT_EQ(request->max_tokens, 7);
  EXPECT_TRUE(request->stream && request->include_usage);
  EXPECT_EQ(request->temperature, 1);
  EXPECT_EQ(request->frequency_penalty, 0.5f);
  EXPECT_EQ(request->presence_penalty, -1);
  EXPECT_EQ(request->logit_bias, (std::vector<std::pair<int, float>>{{12, 2.5f}, {7, -100.0f}}));
  EXPECT_EQ(request->stop, std::vector<std::string>{"x"});
}

struct BadBody {
  const char* body;
  const char* field;  // "" = the body as a whole
};

class BadChatRequestTest : public testing::TestWithParam<BadBody> {};

TEST_P(BadChatRequestTest, IsRefusedNamingTheField) {
  auto request = ParseChatRequest(GetParam().body);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(request.status()), GetParam().field);
}

#define CAIRN_MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"
INSTANTIATE_TEST_SUITE_P(
    Table, BadChatRequestTest,
    testing::Values(
        BadBody{"", ""}, BadBody{"[]", ""}, BadBody{"{", ""}, BadBody{"{}", "messages"},
        BadBody{R"({"messages":[]})", "messages"}, BadBody{R"({"messages":[3]})", "messages[0]"},
        BadBody{R"({"messages":[{"role":"god","content":"x"}]})", "messages[0].role"},
        BadBody{R"({"messages":[{"role":"user"}]})", "messages[0].content"},
        BadBody{R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})",
                "messages[0].content"},
        BadBody{"{" CAIRN_MESSAGES ",\"n\":2}", "n"},
        BadBody{"{" CAIRN_MESSAGES ",\"temperature\":3}", "temperature"},
        BadBody{"{" CAIRN_MESSAGES ",\"temperature\":\"hot\"}", "temperature"},
        BadBody{"{" CAIRN_MESSAGES ",\"top_p\":0}", "top_p"},
        BadBody{"{" CAIRN_MESSAGES ",\"max_tokens\":0}", "max_tokens"},
        BadBody{"{" CAIRN_MESSAGES ",\"max_tokens\":-5}", "max_tokens"},
        BadBody{"{" CAIRN_MESSAGES ",\"max_tokens\":1e30}", "max_tokens"},
        BadBody{"{" CAIRN_MESSAGES ",\"max_tokens\":18446744073709551615}", "max_tokens"},
        BadBody{"{" CAIRN_MESSAGES ",\"stop\":[1]}", "stop"},
        BadBody{"{" CAIRN_MESSAGES ",\"stream\":\"yes\"}", "stream"},
        BadBody{"{" CAIRN_MESSAGES ",\"tools\":[{}]}", "tools"},
        BadBody{"{" CAIRN_MESSAGES ",\"presence_penalty\":2.5}", "presence_penalty"},
        BadBody{"{" CAIRN_MESSAGES ",\"frequency_penalty\":\"x\"}", "frequency_penalty"},
        BadBody{"{" CAIRN_MESSAGES ",\"logit_bias\":[1]}", "logit_bias"},
        BadBody{"{" CAIRN_MESSAGES ",\"logit_bias\":{\"x\":1}}", "logit_bias"},
        BadBody{"{" CAIRN_MESSAGES ",\"logit_bias\":{\"-1\":1}}", "logit_bias"},
        BadBody{"{" CAIRN_MESSAGES ",\"logit_bias\":{\"99999999999\":1}}", "logit_bias"},
        BadBody{"{" CAIRN_MESSAGES ",\"logit_bias\":{\"1\":101}}", "logit_bias"},
        BadBody{"{" CAIRN_MESSAGES ",\"logit_bias\":{\"1\":null}}", "logit_bias"},
        BadBody{"{" CAIRN_MESSAGES ",\"collection\":\"c\",\"presence_penalty\":1}",
                "presence_penalty"},
        BadBody{"{" CAIRN_MESSAGES ",\"response_format\":{\"type\":\"json_object\"}}",
                "response_format"},
        BadBody{"{" CAIRN_MESSAGES ",\"top_logprobs\":2}", "top_logprobs"},
        BadBody{"{" CAIRN_MESSAGES ",\"collection\":7}", "collection"}));

}  // namespace
}  // namespace cairn::services
