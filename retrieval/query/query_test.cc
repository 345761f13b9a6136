#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "retrieval/query/filter.h"
#include "retrieval/query/validate.h"

namespace cairn::retrieval {
namespace {

using Op = Condition::Op;

Condition Equals(std::string key, MetadataValue value) {
  return {key, Op::kEquals, {value}, {}, {}};
}
Condition In(std::string key, std::vector<MetadataValue> values) {
  return {key, Op::kIn, values, {}, {}};
}
Condition Range(std::string key, std::optional<MetadataValue> low,
                std::optional<MetadataValue> high) {
  return {key, Op::kRange, {}, low, high};
}

DocumentInfo Document() {
  DocumentInfo info;
  info.document_id = "a.md";
  info.media_type = "text/markdown";
  info.title = "A title";
  info.metadata = {{"year", int64_t{2020}},
                   {"price", 1.5},
                   {"draft", false},
                   {"team", std::string("core")},
                   {"title", std::string("hidden by the reserved key")},
                   {"big", int64_t{9007199254740993}}};  // 2^53 + 1
  return info;
}

TEST(Filter, MatchesByKindAndValue) {
  const DocumentInfo document = Document();
  const std::string core = "core";
  const std::vector<std::pair<Condition, bool>> cases = {
      {Equals("team", core), true},
      {Equals("team", std::string("other")), false},
      {Equals("absent", core), false},
      {Equals("year", int64_t{2020}), true},
      {Equals("year", 2020.0), true},
      {Equals("year", std::string("2020")), false},
      {Equals("draft", false), true},
      {Equals("draft", int64_t{0}), false},
      {Equals("big", 9007199254740992.0), false},  // would be equal after rounding
      {In("team", {std::string("x"), core}), true},
      {In("year", {int64_t{1}, 2020.0}), true},
      {In("year", {int64_t{1}}), false},
      {Range("year", int64_t{2020}, {}), true},
      {Range("year", 2020.5, {}), false},
      {Range("year", {}, int64_t{2019}), false},
      {Range("price", int64_t{1}, int64_t{2}), true},
      {Range("team", int64_t{1}, {}), false},
      {Range("draft", int64_t{0}, {}), false},
      {Equals("document_id", std::string("a.md")), true},
      {Equals("media_type", std::string("text/html")), false},
      {Equals("title", std::string("A title")), true},
      {Equals("title", std::string("hidden by the reserved key")), false},
      {Equals("title", int64_t{1}), false},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    ASSERT_TRUE(ValidateFilter({cases[i].first}).ok()) << i;
    EXPECT_EQ(MatchesDocument({cases[i].first}, document), cases[i].second) << "case " << i;
  }
  EXPECT_TRUE(MatchesDocument({}, document));
  EXPECT_FALSE(MatchesDocument({Equals("team", core), Equals("draft", true)}, document));
}

TEST(Filter, LanguageBelongsToTheChunk) {
  const Filter filter = {Equals("language", std::string("zh"))};
  EXPECT_TRUE(HasLanguageCondition(filter));
  EXPECT_TRUE(MatchesDocument(filter, Document()));
  EXPECT_TRUE(MatchesLanguage(filter, "zh"));
  EXPECT_FALSE(MatchesLanguage(filter, "en"));
  EXPECT_TRUE(MatchesLanguage({}, ""));
}

TEST(Filter, WhatCannotHoldIsRefused) {
  const double nan = std::nan("");
  const std::vector<Condition> bad = {
      Equals("", int64_t{1}),
      Equals(std::string(kMaxMetadataKeyBytes + 1, 'k'), int64_t{1}),
      {"k", Op::kEquals, {}, {}, {}},
      {"k", Op::kEquals, {int64_t{1}, int64_t{2}}, {}, {}},
      Equals("k", nan),
      In("k", {}),
      In("k", std::vector<MetadataValue>(kMaxConditionValues + 1, int64_t{1})),
      Range("k", {}, {}),
      Range("k", std::string("a"), {}),
      Range("k", nan, {}),
      Range("k", true, {}),
  };
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(ValidateFilter({bad[i]}).code(), absl::StatusCode::kInvalidArgument) << i;
  }
  EXPECT_FALSE(ValidateFilter(Filter(kMaxConditions + 1, Equals("k", true))).ok());
}

TEST(ValidateQuery, RefusesEachFieldByName) {
  const std::vector<std::pair<std::string, std::function<void(SearchQuery*)>>> bad = {
      {"text", [](SearchQuery* q) { q->text = ""; }},
      {"text", [](SearchQuery* q) { q->text = " \t\n\u200B\uFEFF\u3000"; }},
      {"text", [](SearchQuery* q) { q->text = "\xC3"; }},
      {"text", [](SearchQuery* q) { q->text = std::string(kMaxQueryBytes + 1, 'a'); }},
      {"top_k", [](SearchQuery* q) { q->top_k = 0; }},
      {"top_k", [](SearchQuery* q) { q->top_k = -1; }},
      {"top_k", [](SearchQuery* q) { q->top_k = kMaxTopK + 1; }},
      {"candidates", [](SearchQuery* q) { q->candidates = 0; }},
      {"candidates", [](SearchQuery* q) { q->candidates = kMaxCandidates + 1; }},
      {"rerank.top", [](SearchQuery* q) { q->rerank.top = 0; }},
      {"rerank.weight", [](SearchQuery* q) { q->rerank.weight = 1.1; }},
      {"fusion.vector_weight", [](SearchQuery* q) { q->fusion.vector_weight = std::nan(""); }},
      {"fusion.vector_weight", [](SearchQuery* q) { q->fusion.vector_weight = -0.1; }},
      {"fusion.rrf_k", [](SearchQuery* q) { q->fusion.rrf_k = 0; }},
  };
  for (const auto& [field, change] : bad) {
    SearchQuery query;
    query.text = "a question";
    ASSERT_TRUE(ValidateQuery(query).ok());
    change(&query);
    const absl::Status status = ValidateQuery(query);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_EQ(FieldOf(status), field);
  }
  SearchQuery vector_only;
  vector_only.mode = SearchMode::kVector;
  vector_only.vector = {1, 0};
  EXPECT_TRUE(ValidateQuery(vector_only).ok());
}

}  // namespace
}  // namespace cairn::retrieval
