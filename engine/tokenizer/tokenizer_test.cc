// Rules of each tokenizer model on small vocabularies made here, and what a broken one gives.
#include "engine/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <random>

#include "common/strings.h"
#include "common/utf8.h"
#include "engine/gguf/gguf_writer.h"
#include "engine/tokenizer/pair_merge.h"
#include "engine/tokenizer/stream_decoder.h"

namespace cairn::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;

struct Token {
  std::string text;
  int type = kNormal;
  float score = 0;
};

// Vocabulary and settings of a model file.
struct Spec {
  std::string model;
  std::vector<Token> tokens;
  std::function<void(GgufWriter&)> more = [](GgufWriter&) {};
};

absl::StatusOr<std::string> Serialize(const Spec& spec) {
  GgufWriter writer;
  writer.AddString("tokenizer.ggml.model", spec.model);
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;
  for (const Token& token : spec.tokens) {
    texts.push_back(token.text);
    types.push_back(token.type);
    scores.push_back(token.score);
  }
  writer.AddStrings("tokenizer.ggml.tokens", texts);
  writer.AddInts("tokenizer.ggml.token_type", types);
  writer.AddFloats("tokenizer.ggml.scores", scores);
  spec.more(writer);
  return writer.Serialize();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadBytes(std::string_view bytes) {
  absl::StatusOr<std::unique_ptr<GgufFile>> file =
      GgufFile::Parse({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  if (!file.ok()) return file.status();
  return Tokenizer::Load(**file);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const Spec& spec) {
  absl::StatusOr<std::string> bytes = Serialize(spec);
  if (!bytes.ok()) return bytes.status();
  return LoadBytes(*bytes);
}

// The text of a byte in byte-level vocabularies, by the rule of GPT-2's bytes_to_unicode.
std::string ByteText(int byte) {
  auto visible = [](int b) {
    return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
  };
  int code = byte;
  if (!visible(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += visible(b) ? 0 : 1;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// All bytes at ids 0..255, then a few merges, a control token, a marker and a run of spaces.
constexpr TokenId kAb = 256, kAbab = 257, kSpaces = 258, kEnd = 260, kMarker = 261, kPad = 262,
                  kFour = 263;
Spec BpeSpec() {
  Spec spec;
  spec.model = "gpt2";
  for (int byte = 0; byte < 256; ++byte) spec.tokens.push_back({ByteText(byte)});
  spec.tokens.push_back({"ab"});
  spec.tokens.push_back({"abab"});
  spec.tokens.push_back({"\xC4\xA0\xC4\xA0"});
  spec.tokens.push_back({"cd"});
  spec.tokens.push_back({"<|end|>", kControl});
  spec.tokens.push_back({"<call>", kUserDefined});
  spec.tokens.push_back({"[PAD262]", kUnused});
  spec.tokens.push_back({"    ", kUserDefined});
  spec.more = [](GgufWriter& writer) {
    writer.AddString("tokenizer.ggml.pre", "qwen2");
    writer.AddStrings("tokenizer.ggml.merges",
                      std::vector<std::string>{"a b", "ab ab", "\xC4\xA0 \xC4\xA0", "c d"});
    writer.AddUint32("tokenizer.ggml.eos_token_id", kEnd);
  };
  return spec;
}

TEST(BpeTest, MergesByRank) {
  std::unique_ptr<Tokenizer> t = *Load(BpeSpec());
  EXPECT_THAT(t->Encode("ab"), ElementsAre(kAb));
  EXPECT_THAT(t->Encode("abab"), ElementsAre(kAbab));
  EXPECT_THAT(t->Encode("ababab"), ElementsAre(kAbab, kAb));
  EXPECT_THAT(t->Encode("bab"), ElementsAre('b', kAb));
  EXPECT_THAT(t->Encode(""), IsEmpty());
  EXPECT_EQ(t->Decode(t->Encode("ab cab")), "ab cab");
}

TEST(BpeTest, SpecialTokensOnlyWhenAsked) {
  std::unique_ptr<Tokenizer> t = *Load(BpeSpec());
  const std::string text = "ab<|end|><call>ab";
  std::vector<TokenId> plain = t->Encode(text);
  EXPECT_THAT(plain, ::testing::Not(::testing::Contains(kEnd)));
  EXPECT_THAT(plain, ::testing::Not(::testing::Contains(kMarker)));
  EXPECT_EQ(t->Decode(plain), text);
  EXPECT_THAT(t->Encode(text, {.parse_special = true}), ElementsAre(kAb, kEnd, kMarker, kAb));
  // Other user-defined tokens belong to the text; unused ones never come out of it.
  EXPECT_THAT(t->Encode("ab    ab"), ElementsAre(kAb, kFour, kAb));
  EXPECT_THAT(t->Encode("[PAD262]", {.parse_special = true}),
              ::testing::Not(::testing::Contains(kPad)));
  EXPECT_EQ(t->TokenBytes(kEnd), "");
  EXPECT_EQ(t->TokenBytes(kEnd, true), "<|end|>");
  EXPECT_EQ(t->TokenBytes(kMarker), "<call>");
  EXPECT_EQ(t->TokenBytes(kPad, true), "");
  EXPECT_TRUE(t->IsControl(kEnd));
  EXPECT_FALSE(t->IsControl(kMarker));
  EXPECT_THAT(t->end_of_generation(), ElementsAre(kEnd));
  EXPECT_EQ(t->eos(), kEnd);
  EXPECT_EQ(t->bos(), -1);
}

TEST(BpeTest, EveryByteComesBack) {
  std::unique_ptr<Tokenizer> t = *Load(BpeSpec());
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 40, '\0');
    for (char& c : text)
      c = static_cast<char>(i % 2 == 0 ? random()
                                       : "ab  \n'sS1\xE4\xBD\xA0\xCC\x81"[random() % 15]);
    ASSERT_EQ(t->Decode(t->Encode(text)), text);
  }
}

TEST(BpeTest, RefusesBrokenVocabularies) {
  auto refused = [](Spec spec, absl::StatusCode code, const std::string& message) {
    absl::Status status = Load(spec).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  using enum absl::StatusCode;
  auto with_merges = [](std::vector<std::string> merges, std::string pre = "qwen2") {
    Spec spec = BpeSpec();
    spec.more = [=](GgufWriter& writer) {
      writer.AddString("tokenizer.ggml.pre", pre);
      writer.AddStrings("tokenizer.ggml.merges", merges);
    };
    return spec;
  };
  refused(with_merges({}, "no-such"), kUnimplemented, "'no-such'");
  refused(with_merges({"ab"}), kInvalidArgument, "is not a pair");
  refused(with_merges({""}), kInvalidArgument, "is not a pair");
  refused(with_merges({"a x"}), kInvalidArgument, "the vocabulary lacks");
  refused(with_merges({"a \xE4\xBD\xA0"}), kInvalidArgument, "not byte-level");
  Spec spec = BpeSpec();
  spec.more = [](GgufWriter&) {};
  refused(spec, kUnimplemented, "names no pre-tokeniser");
  spec = BpeSpec();
  spec.tokens[259].text = "ab";
  refused(spec, kInvalidArgument, "the same bytes");
  spec = BpeSpec();
  spec.tokens[259].type = 9;
  refused(spec, kInvalidArgument, "unknown type 9");
  spec = BpeSpec();
  spec.tokens[259].text = std::string(1025, 'x');
  refused(spec, kInvalidArgument, "1025 bytes");
  spec = BpeSpec();
  spec.tokens.resize(260);
  refused(spec, kInvalidArgument, "eos_token_id is 260");
  spec = BpeSpec();
  spec.model = "rwkv";
  refused(spec, kUnimplemented, "'rwkv'");
  spec = BpeSpec();
  spec.tokens.clear();
  refused(spec, kInvalidArgument, "empty");
}

Spec SpmSpec() {
  Spec spec;
  spec.model = "llama";
  spec.tokens = {{"<unk>", kUnknown}, {"<s>", kControl}, {"</s>", kUserDefined}};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    spec.tokens.push_back(
        {StrCat("<0x", std::string(1, kHex[byte >> 4]), std::string(1, kHex[byte & 15]), ">"),
         kByte});
  }
  for (const char* text : {"\u2581", "a", "b", "ab", "\u2581ab", "ba"}) {
    spec.tokens.push_back({text, kNormal, -static_cast<float>(spec.tokens.size())});
  }
  spec.more = [](GgufWriter& writer) {
    writer.AddUint32("tokenizer.ggml.bos_token_id", 1);
    writer.AddUint32("tokenizer.ggml.eos_token_id", 2);
    writer.AddUint32("tokenizer.ggml.unknown_token_id", 0);
  };
  return spec;
}

TEST(SpmTest, SpacesBytesAndFrames) {
  std::unique_ptr<Tokenizer> t = *Load(SpmSpec());
  constexpr TokenId kByte0 = 3, kSpace = 259, kA = 260, kAb = 262, kSpaceAb = 263;
  EXPECT_THAT(t->Encode("ab"), ElementsAre(kSpaceAb));
  EXPECT_THAT(t->Encode("a ab"), ElementsAre(kSpace, kA, kSpaceAb));
  EXPECT_THAT(t->Encode("a", {.add_special = true}), ElementsAre(1, kSpace, kA));
  // No token: its bytes.
  EXPECT_THAT(t->Encode("\xC3\xA9"), ElementsAre(kSpace, kByte0 + 0xC3, kByte0 + 0xA9));
  EXPECT_THAT(t->Encode("\xFF"), ElementsAre(kSpace, kByte0 + 0xFF));
  // Only byte tokens may come of what looks like one, or like a control token.
  for (const char* text : {"<s>", "</s>", "<unk>", "<0x41>"}) {
    EXPECT_EQ(t->Decode(t->Encode(text)), text);
    for (TokenId id : t->Encode(text)) EXPECT_GE(id, 3) << text;
  }
  // After a special token the text begins anew.
  EXPECT_THAT(t->Encode("ab</s>ab", {.parse_special = true}), ElementsAre(kSpaceAb, 2, kSpaceAb));
  EXPECT_THAT(t->Encode("abab"), ElementsAre(kSpaceAb, kAb));
  EXPECT_EQ(t->Decode(t->Encode(" ab  ab ")), " ab  ab ");
}

constexpr TokenId kE5Unk = 3;
Spec UnigramSpec() {
  Spec spec;
  spec.model = "t5";
  spec.tokens = {{"<s>", kControl},       {"<pad>", kControl},       {"</s>", kControl},
                 {"<unk>", kUnknown},     {"\u2581", kNormal, -3},   {"a", kNormal, -4},
                 {"b", kNormal, -4},      {"\u2581ab", kNormal, -5}, {"ab", kNormal, -8},
                 {"\u00E9", kNormal, -4}, {"</s", kNormal, -6},      {"s", kNormal, -6},
                 {"\u1EBF", kNormal, -6}};
  spec.more = [](GgufWriter& writer) {
    writer.AddUint32("tokenizer.ggml.bos_token_id", 0);
    writer.AddUint32("tokenizer.ggml.eos_token_id", 2);
    writer.AddUint32("tokenizer.ggml.padding_token_id", 1);
    writer.AddUint32("tokenizer.ggml.unknown_token_id", kE5Unk);
    writer.AddInts("cairn.tokenizer.norm_from",
                   std::vector<int32_t>{0x09, 0x0A, 0xAD, 0xC4, 0xFB05, 0xFF21, 0xFF25});
    writer.AddStrings("cairn.tokenizer.norm_to",
                      std::vector<std::string>{" ", " ", "", "ab", "se", "a", "e"});
  };
  return spec;
}

TEST(UnigramTest, BestPathNormalisationAndFrames) {
  std::unique_ptr<Tokenizer> t = *Load(UnigramSpec());
  constexpr TokenId kSpace = 4, kA = 5, kSpaceAb = 7, kAb = 8, kAcute = 9, kS = 11,
                    kCircumflexAcute = 12;
  EXPECT_THAT(t->Encode("ab"), ElementsAre(kSpaceAb));
  EXPECT_THAT(t->Encode("abab"),
              ElementsAre(kSpaceAb, kAb));  // equal to a, b: the first found wins
  EXPECT_THAT(t->Encode("a", {.add_special = true}), ElementsAre(0, kSpace, kA, 2));
  EXPECT_THAT(t->Encode("", {.add_special = true}), ElementsAre(0, 2));
  EXPECT_THAT(t->Encode("   "), IsEmpty());
  EXPECT_THAT(t->Encode("  ab \t\n ab  "), ElementsAre(kSpaceAb, kSpaceAb));
  EXPECT_THAT(t->Encode("\u00AD\u00C4"), ElementsAre(kSpaceAb));  // deleted, replaced by two
  EXPECT_THAT(t->Encode("\uFF21"), ElementsAre(kSpace, kA));
  // Marks compose with a character, replaced or not, but not with the last of a replacement and
  // not with what was composed in the text.
  EXPECT_THAT(t->Encode("e\u0301"), ElementsAre(kSpace, kAcute));
  EXPECT_THAT(t->Encode("\uFF25\u0301"), ElementsAre(kSpace, kAcute));
  EXPECT_THAT(t->Encode("e\u0302\u0301"), ElementsAre(kSpace, kCircumflexAcute));
  EXPECT_THAT(t->Encode("\u00EA\u0301"), ElementsAre(kSpace, kE5Unk));
  EXPECT_THAT(t->Encode("\uFB05\u0301"), ElementsAre(kSpace, kS, kE5Unk));
  // Neighbouring unknown characters are one, others are not.
  EXPECT_THAT(t->Encode("xyz"), ElementsAre(kSpace, kE5Unk));
  EXPECT_THAT(t->Encode("xaz z"), ElementsAre(kSpace, kE5Unk, kA, kE5Unk, kSpace, kE5Unk));
  EXPECT_THAT(t->Encode("\xFF\xFE"), ElementsAre(kSpace, kE5Unk));
  // A control piece in the text is text.
  EXPECT_THAT(t->Encode("</s>"), ElementsAre(kSpace, 10, kE5Unk));
  EXPECT_EQ(t->Decode(t->Encode("ab a")), "ab a");
}

TEST(UnigramTest, Pairs) {
  std::unique_ptr<Tokenizer> t = *Load(UnigramSpec());
  std::vector<int32_t> types;
  bool truncated = true;
  EXPECT_THAT(t->EncodePair("ab", "ab ab", 0, &types, &truncated),
              ElementsAre(0, 7, 2, 2, 7, 7, 2));
  EXPECT_THAT(types, ElementsAre(0, 0, 0, 0, 0, 0, 0));
  EXPECT_FALSE(truncated);
}

TEST(UnigramTest, RefusesBrokenTables) {
  auto with_table = [](std::vector<int32_t> from, std::vector<std::string> to) {
    Spec spec = UnigramSpec();
    spec.more = [=](GgufWriter& writer) {
      writer.AddUint32("tokenizer.ggml.unknown_token_id", kE5Unk);
      writer.AddInts("cairn.tokenizer.norm_from", from);
      writer.AddStrings("cairn.tokenizer.norm_to", to);
    };
    return Load(spec).status().code();
  };
  using enum absl::StatusCode;
  EXPECT_EQ(with_table({}, {}), kOk);
  EXPECT_EQ(with_table({1}, {}), kInvalidArgument);
  EXPECT_EQ(with_table({2, 1}, {"", ""}), kInvalidArgument);
  EXPECT_EQ(with_table({1, 1}, {"", ""}), kInvalidArgument);
  EXPECT_EQ(with_table({-1}, {""}), kInvalidArgument);
  EXPECT_EQ(with_table({0x110000}, {""}), kInvalidArgument);
  EXPECT_EQ(with_table({1}, {"\xFF"}), kInvalidArgument);
  Spec spec = UnigramSpec();
  spec.more = [](GgufWriter& writer) {
    writer.AddUint32("tokenizer.ggml.unknown_token_id", kE5Unk);
  };
  EXPECT_EQ(Load(spec).status().code(), kNotFound);
  auto with_flag = [](bool collapse) {
    Spec flagged = UnigramSpec();
    flagged.more = [collapse](GgufWriter& writer) {
      UnigramSpec().more(writer);
      writer.AddBool("tokenizer.ggml.remove_extra_whitespaces", collapse);
    };
    return Load(flagged).status().code();
  };
  EXPECT_EQ(with_flag(true), kOk);
  EXPECT_EQ(with_flag(false), kUnimplemented);
  spec.tokens[5].score = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Load(spec).status().code(), kInvalidArgument);
}

Spec WordPieceSpec() {
  Spec spec;
  spec.model = "bert";
  spec.tokens = {
      {"[PAD]", kControl}, {"[UNK]", kUnknown}, {"[CLS]", kControl}, {"[SEP]", kControl}};
  for (const char* text :
       {"\u2581un", "able", "\u2581able", "\u2581,", "\u2581\u4F60", "\u2581e", "##"}) {
    spec.tokens.push_back({text});
  }
  spec.more = [](GgufWriter& writer) {
    writer.AddUint32("tokenizer.ggml.unknown_token_id", 1);
    writer.AddUint32("tokenizer.ggml.cls_token_id", 2);
    writer.AddUint32("tokenizer.ggml.seperator_token_id", 3);
  };
  return spec;
}

TEST(WordPieceTest, WordsPiecesAndPairs) {
  std::unique_ptr<Tokenizer> t = *Load(WordPieceSpec());
  EXPECT_THAT(t->Encode("unable"), ElementsAre(4, 5));
  EXPECT_THAT(t->Encode("UN\u200B able,un"), ElementsAre(4, 6, 7, 4));
  EXPECT_THAT(t->Encode("unabl"), ElementsAre(1));  // one failing piece fails the word
  EXPECT_THAT(t->Encode("\u4F60\u4F60un"), ElementsAre(8, 8, 4));
  EXPECT_THAT(t->Encode("\u00C9 E\u0301\u0302 \u0301"), ElementsAre(9, 9));
  EXPECT_THAT(t->Encode("[CLS]"), ElementsAre(1, 1, 1));
  // Categories as of Unicode 8: U+166D is punctuation still, U+09FE not a mark yet.
  EXPECT_THAT(t->Encode("un\u166Dun"), ElementsAre(4, 1, 4));
  EXPECT_THAT(t->Encode("un\u09FE"), ElementsAre(1));
  EXPECT_THAT(t->Encode("un", {.add_special = true}), ElementsAre(2, 4, 3));
  EXPECT_EQ(t->Decode(std::vector<TokenId>{4, 5, 7, 6}), "unable , able");
  EXPECT_EQ(t->bos(), 2);
  EXPECT_EQ(t->eos(), 3);

  std::vector<int32_t> types;
  bool truncated = false;
  EXPECT_THAT(t->EncodePair("un", "able un", 0, &types, &truncated), ElementsAre(2, 4, 3, 6, 4, 3));
  EXPECT_THAT(types, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_FALSE(truncated);
  EXPECT_THAT(t->EncodePair("un", "able un", 5, &types, &truncated), ElementsAre(2, 4, 3, 6, 3));
  EXPECT_TRUE(truncated);
  // The first text is never cut.
  EXPECT_THAT(t->EncodePair("un un", "able", 3, &types, &truncated), ElementsAre(2, 4, 4, 3, 3));
  EXPECT_TRUE(truncated);
  EXPECT_EQ(types.size(), 5u);
}

TEST(StreamDecoderTest, NeverEndsInsideACharacter) {
  std::unique_ptr<Tokenizer> t = *Load(BpeSpec());
  StreamDecoder decoder(*t);
  EXPECT_EQ(decoder.Feed(0xE4), "");
  EXPECT_EQ(decoder.Feed(0xBD), "");
  EXPECT_EQ(decoder.Feed(kEnd), "");
  EXPECT_EQ(decoder.Feed(0xA0), "\u4F60");
  EXPECT_EQ(decoder.Feed(kAb), "ab");
  EXPECT_EQ(decoder.Feed(0xF0), "");
  EXPECT_EQ(decoder.Feed('x'), "\uFFFDx");  // the character never came
  EXPECT_EQ(decoder.Feed(0xF0), "");
  EXPECT_EQ(decoder.Feed(0x9F), "");
  EXPECT_EQ(decoder.Flush(), "\uFFFD\uFFFD");
  EXPECT_EQ(decoder.Flush(), "");
}

TEST(StreamDecoderTest, AnyCutsGiveTheTextOfTheWhole) {
  std::unique_ptr<Tokenizer> t = *Load(BpeSpec());
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    std::vector<TokenId> ids(1 + random() % 12);
    for (TokenId& id : ids) {
      const int interesting[] = {'a',  0x80, 0x9F, 0xA0, 0xBD, 0xC3,
                                 0xE4, 0xED, 0xF0, 0xF4, 0xFF, kAb};
      id = interesting[random() % std::size(interesting)];
    }
    StreamDecoder decoder(*t);
    std::string text;
    for (TokenId id : ids) {
      std::string delta = decoder.Feed(id);
      EXPECT_EQ(IncompleteUtf8Suffix(delta), 0u);
      EXPECT_TRUE(IsValidUtf8(delta));
      text += delta;
    }
    text += decoder.Flush();
    ASSERT_EQ(text, SanitizeUtf8(t->Decode(ids)));
  }
}

// A vocabulary is input: whatever its bytes say, it is refused or it works.
TEST(TokenizerTest, DamagedVocabulariesAreRefusedOrHarmless) {
  std::mt19937 random(23);
  const std::string text = "ab<|end|> \xFF</s> \u4F60e\u0301 unable, [CLS]    x";
  int loaded = 0, refused = 0;
  for (const Spec& spec : {BpeSpec(), SpmSpec(), UnigramSpec(), WordPieceSpec()}) {
    const std::string whole = *Serialize(spec);
    for (int i = 0; i < 4000; ++i) {
      std::string bytes = whole;
      for (int n = 1 + random() % 3; n > 0; --n) {
        bytes[random() % bytes.size()] =
            static_cast<char>(random() % 2 == 0 ? random() : random() % 8);
      }
      absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = LoadBytes(bytes);
      if (!tokenizer.ok()) {
        ++refused;
        continue;
      }
      ++loaded;
      for (bool special : {false, true}) {
        std::vector<TokenId> ids =
            (*tokenizer)->Encode(text, {.add_special = special, .parse_special = special});
        for (TokenId id : ids) {
          ASSERT_GE(id, 0);
          ASSERT_LT(id, (*tokenizer)->vocab_size());
        }
        (*tokenizer)->Decode(ids, special);
      }
    }
  }
  EXPECT_GT(loaded, 1000);
  EXPECT_GT(refused, 1000);
}

// Words that a domain adds to a vocabulary: tokens wherever they are written, the longest first.
TEST(TokenizerTest, AddedWordsAreTokensInUsersText) {
  for (Spec spec : {BpeSpec(), SpmSpec(), UnigramSpec(), WordPieceSpec()}) {
    const TokenId word = static_cast<TokenId>(spec.tokens.size());
    spec.tokens.push_back({"IL-6", kUserDefined});
    spec.tokens.push_back({"IL-6R \u03B1", kUserDefined});
    std::unique_ptr<Tokenizer> t = *Load(spec);
    auto with = [&](std::string_view before, TokenId id, std::string_view after) {
      std::vector<TokenId> ids = t->Encode(before);
      ids.push_back(id);
      for (TokenId rest : t->Encode(after)) ids.push_back(rest);
      return ids;
    };
    SCOPED_TRACE(spec.model);
    EXPECT_EQ(t->Encode("IL-6"), with("", word, ""));
    EXPECT_EQ(t->Encode("ab IL-6 ab"), with("ab ", word, " ab"));
    EXPECT_EQ(t->Encode("abIL-6ab"), with("ab", word, "ab"));  // inside a word as well
    EXPECT_EQ(t->Encode("IL-6R \u03B1"), with("", word + 1, ""));
    EXPECT_EQ(t->Encode("IL-6R\u03B1"), with("", word, "R\u03B1"));
    for (const char* other : {"il-6", "IL-", "IL\u20116"}) {
      EXPECT_THAT(t->Encode(other), ::testing::Each(::testing::Lt(word))) << other;
    }
    EXPECT_EQ(t->TokenBytes(word), "IL-6");
    EXPECT_FALSE(t->IsControl(word));
  }
}

// The merge loop asks for a pair at most three times a symbol, whatever the text: n - 1 pairs at
// the start and two new neighbours a merge. Every pair merges here, in several orders.
TEST(MergePairsTest, AsksLinearlyOften) {
  std::mt19937 random(5);
  for (int order = 0; order < 4; ++order) {
    constexpr uint32_t kCount = 100000;
    std::vector<Symbol> symbols(kCount);
    for (uint32_t i = 0; i < kCount; ++i) symbols[i] = {.id = 0, .begin = i, .length = 1};
    size_t num_asked = 0;
    MergePairs(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<PairMerge> {
      ++num_asked;
      const double priorities[] = {0, static_cast<double>(left.begin),
                                   static_cast<double>(left.length + right.length),
                                   static_cast<double>(random())};
      return PairMerge{priorities[order], 0};
    });
    EXPECT_EQ(symbols[0].length, kCount);
    EXPECT_LE(num_asked, 3 * kCount);
  }
}

}  // namespace
}  // namespace cairn::engine
