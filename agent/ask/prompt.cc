#include "agent/ask/prompt.h"

#include <algorithm>
#include <cctype>

#include "common/strings.h"

namespace cairn::agent {
namespace {

struct Words {
  std::string_view system, example_question, example_answer;
  std::string_view sources, question;  // labels
  std::string_view rewrite, conversation, user, assistant, last_question;
};

constexpr Words kEnglish = {
    "You answer questions about documents. Use only the sources in the message. Write a few short, "
    "complete "
    "sentences in English. Copy numbers and names exactly as the sources write them. If the "
    "sources do not hold the "
    "answer, write: The sources do not say.",
    "Sources:\n[1] Lighthouse guide > Lamp\nThe lamp of the Grey Point lighthouse was lit in 1871. "
    "It burns rapeseed oil "
    "and is seen from 18 miles away.\n\n[2] Lighthouse guide > Keepers\nTwo keepers lived in the "
    "tower until 1953. "
    "Since then the lamp works without a keeper.\n\nQuestion: When was the lamp lit, and who looks "
    "after it today?",
    "The lamp was lit in 1871. Since 1953 it works without a keeper.",
    "Sources:\n",
    "Question: ",
    "Rewrite the last question so that it can be understood without the conversation: put in the "
    "names that words "
    "like \"it\" stand for. Write only the question.",
    "Conversation:\n",
    "User: ",
    "Assistant: ",
    "Last question: "};

constexpr Words kChinese = {
    "你根据资料回答问题。只使用消息中给出的资料，用简短完整的中文句子回答。数字和名称要与资料完全一"
    "致。如果资料中没有"
    "答案，就写：资料中没有说明。",
    "资料：\n[1] 灯塔手册 > 灯\n灰角灯塔的灯于1871年点亮。它使用菜籽油，18海里外都能看到。\n\n[2] "
    "灯塔手册 > 守塔人\n"
    "1953年以前有两名守塔人住在塔里。此后灯不再需要人看守。\n\n问题：灯是哪一年点亮的？现在由谁看守"
    "？",
    "灯于1871年点亮。1953年以后灯不再需要人看守。",
    "资料：\n",
    "问题：",
    "改写最后一个问题，使它脱离对话也能看懂：把“它”这样的词换成所指的名称。只写改写后的问题。",
    "对话：\n",
    "用户：",
    "助手：",
    "最后一个问题："};

const Words& WordsOf(std::string_view language) { return language == "zh" ? kChinese : kEnglish; }

}  // namespace

std::vector<Message> AnswerPrompt(std::string_view language, std::string_view sources,
                                  std::string_view question) {
  const Words& w = WordsOf(language);
  return {{Message::Role::kSystem, std::string(w.system)},
          {Message::Role::kUser, std::string(w.example_question)},
          {Message::Role::kAssistant, std::string(w.example_answer)},
          {Message::Role::kUser, StrCat(w.sources, sources, w.question, question)}};
}

std::vector<Message> RewritePrompt(std::string_view language, const std::vector<Message>& turns,
                                   std::string_view question) {
  const Words& w = WordsOf(language);
  std::string text(w.conversation);
  for (const Message& turn : turns) {
    StrAppend(&text, turn.role == Message::Role::kUser ? w.user : w.assistant, turn.content, "\n");
  }
  StrAppend(&text, "\n", w.last_question, question);
  return {{Message::Role::kSystem, std::string(w.rewrite)}, {Message::Role::kUser, text}};
}

std::string_view AbstentionText(std::string_view language) {
  return language == "zh" ? "在文档中没有找到这个问题的答案。"
                          : "The documents do not answer this question.";
}

bool IsRefusal(std::string_view sentence) {
  if (sentence.size() > 400) return false;
  std::string lower(sentence);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  for (const std::string_view phrase :
       {"sources do not say", "sources don't say", "sources do not hold", "sources do not provide",
        "sources do not contain", "sources do not mention", "sources do not specify",
        "not mentioned in the source", "not provided in the source", "not specified in the source",
        "the source does not", "not in the sources", "资料中没有", "资料没有", "资料中未", "资料未",
        "没有提到", "没有在资料中"}) {
    if (lower.find(phrase) != std::string::npos) return true;
  }
  return false;
}

}  // namespace cairn::agent
