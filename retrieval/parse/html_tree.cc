#include "retrieval/parse/html_tree.h"

#include <gumbo.h>
#include <time.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "common/strings.h"
#include "retrieval/parse/parse.h"

namespace cairn::retrieval {
namespace {

// Pages take about 10 bytes a byte of source.
constexpr size_t kMemoryFactor = 32;
constexpr size_t kMemoryFloor = size_t{16} << 20;
// Pages take about 50 ms a MiB; the floor leaves room for slow machines and sanitizers.
constexpr double kSecondsFloor = 1.0;
constexpr double kSecondsPerMib = 2.0;

absl::Status TooDeep(std::string_view message) {
  return WithReason(absl::InvalidArgumentError(ToAbsl(message)), kReasonTooDeep);
}

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
bool IsAlpha(char c) { return Lower(c) >= 'a' && Lower(c) <= 'z'; }

// Elements that hold nothing, or that the next of their kind closes.
bool NeverNests(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "area",  "base", "br",    "col",      "embed",    "hr",      "img",   "input",
      "link",  "meta", "param", "source",   "track",    "wbr",     "p",     "li",
      "td",    "th",   "tr",    "dt",       "dd",       "option",  "thead", "tbody",
      "tfoot", "rp",   "rt",    "optgroup", "colgroup", "!doctype"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Position after the tag whose name ends at `pos`; quotes count only around attribute values.
size_t SkipTag(std::string_view html, size_t pos, bool* self_closing) {
  *self_closing = false;
  while (pos < html.size() && html[pos] != '>') {
    *self_closing = html[pos] == '/';
    if (html[pos] != '=') {
      ++pos;
      continue;
    }
    pos = std::min(html.find_first_not_of(" \t\r\n\f", pos + 1), html.size());
    if (pos < html.size() && (html[pos] == '"' || html[pos] == '\'')) {
      pos = std::min(html.find(html[pos], pos + 1), html.size() - 1) + 1;
    }
  }
  return std::min(pos + 1, html.size());
}

// An upper estimate of the depth of the tree, so that hopeless input is refused at once and always
// alike. What it cannot see (end tags out of scope, formatting that is opened again) runs into the
// arena's limits.
absl::Status CheckNesting(std::string_view html, int max_depth) {
  std::unordered_map<std::string, int> open;
  int depth = 0;
  for (size_t pos = html.find('<'); pos != std::string_view::npos; pos = html.find('<', pos)) {
    if (html.substr(pos).starts_with("<!--")) {
      pos = std::min(html.find("-->", pos + 4), html.size());
      continue;
    }
    const bool end_tag = html.substr(pos).starts_with("</");
    const size_t begin = pos + (end_tag ? 2 : 1);
    if (begin >= html.size() || !IsAlpha(html[begin])) {
      pos = begin;
      continue;
    }
    const size_t end = std::min(html.find_first_of(" \t\r\n\f/>", begin), html.size());
    std::string name(html.substr(begin, std::min<size_t>(end - begin, 64)));
    for (char& c : name) c = Lower(c);
    bool self_closing;
    pos = SkipTag(html, end, &self_closing);
    if (NeverNests(name)) continue;
    if (end_tag) {
      if (auto it = open.find(name); it != open.end() && it->second > 0) --it->second, --depth;
      continue;
    }
    if (name == "script" || name == "style" || name == "textarea" || name == "title") {
      // Raw text: its end tag is the next thing that counts.
      const std::string close = StrCat("</", name);
      const auto found =
          std::search(html.begin() + static_cast<ptrdiff_t>(pos), html.end(), close.begin(),
                      close.end(), [](char a, char b) { return Lower(a) == b; });
      pos = static_cast<size_t>(found - html.begin());
      if (found != html.end()) pos += close.size();
      continue;
    }
    if (self_closing && (open["svg"] > 0 || open["math"] > 0)) continue;
    ++open[name];
    if (++depth > max_depth) {
      return TooDeep(StrCat("more than ", max_depth, " HTML elements are open at byte ", begin));
    }
  }
  return absl::OkStatus();
}

}  // namespace

// Every allocation of one parse, in a list, so that the tree is freed without walking it: gumbo's
// own destructor recurses as deep as the tree. Past a limit it leaves gumbo by longjmp, which
// crosses C frames only.
class HtmlTree::Arena {
 public:
  explicit Arena(size_t source_bytes)
      : max_bytes_(kMemoryFloor + kMemoryFactor * source_bytes),
        max_seconds_(ThreadSeconds() + kSecondsFloor +
                     kSecondsPerMib * static_cast<double>(source_bytes) / (1 << 20)) {}
  ~Arena() {
    while (head_.next != &head_) Free(head_.next + 1);
  }

  // Null when a limit was passed.
  GumboOutput* Parse(const char* data, size_t size) {
    GumboOptions options = kGumboDefaultOptions;
    options.allocator = [](void* arena, size_t bytes) {
      return static_cast<Arena*>(arena)->Allocate(bytes);
    };
    options.deallocator = [](void* arena, void* p) {
      if (p != nullptr) static_cast<Arena*>(arena)->Free(p);
    };
    options.userdata = this;
    options.max_errors = 0;
    if (setjmp(escape_) != 0) return nullptr;
    return gumbo_parse_with_options(&options, data, size);
  }
  bool out_of_memory() const { return bytes_ > max_bytes_; }

 private:
  struct alignas(16) Header {
    Header* previous;
    Header* next;
    size_t bytes;
  };

  void* Allocate(size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > max_bytes_ || (++allocations_ % 1024 == 0 && ThreadSeconds() > max_seconds_)) {
      longjmp(escape_, 1);
    }
    auto* header = static_cast<Header*>(std::malloc(sizeof(Header) + bytes));
    if (header == nullptr) {
      bytes_ = max_bytes_ + 1;
      longjmp(escape_, 1);
    }
    *header = {&head_, head_.next, bytes};
    head_.next->previous = header;
    head_.next = header;
    return header + 1;
  }

  void Free(void* p) {
    Header* header = static_cast<Header*>(p) - 1;
    header->previous->next = header->next;
    header->next->previous = header->previous;
    bytes_ -= header->bytes;
    std::free(header);
  }

  Header head_ = {&head_, &head_, 0};
  size_t bytes_ = 0;
  const size_t max_bytes_;
  const double max_seconds_;  // on this thread's CPU clock
  uint64_t allocations_ = 0;
  std::jmp_buf escape_;
};

HtmlTree::HtmlTree() = default;
HtmlTree::~HtmlTree() = default;

absl::StatusOr<std::unique_ptr<HtmlTree>> HtmlTree::Parse(std::string_view html, int max_depth) {
  CAIRN_RETURN_IF_ERROR(CheckNesting(html, max_depth));
  std::unique_ptr<HtmlTree> tree(new HtmlTree);
  tree->arena_ = std::make_unique<Arena>(html.size());
  tree->output_ = tree->arena_->Parse(html.data(), html.size());
  if (tree->output_ == nullptr) {
    return TooDeep(tree->arena_->out_of_memory()
                       ? "the HTML is so badly nested that its tree would take too much memory"
                       : "the HTML is so badly nested that its tree takes too long to build");
  }
  return tree;
}

}  // namespace cairn::retrieval
