#include "retrieval/parse/html_pieces.h"

#include <gumbo.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/sentences.h"

namespace cairn::retrieval {
namespace {

// "<td>"
constexpr size_t kMinCellTag = 4;

bool IsOneOf(GumboTag tag, std::initializer_list<GumboTag> tags) {
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

bool IsBlock(GumboTag tag) {
  return IsOneOf(
      tag, {GUMBO_TAG_ADDRESS, GUMBO_TAG_ARTICLE,   GUMBO_TAG_ASIDE,      GUMBO_TAG_BLOCKQUOTE,
            GUMBO_TAG_BODY,    GUMBO_TAG_CAPTION,   GUMBO_TAG_CENTER,     GUMBO_TAG_DD,
            GUMBO_TAG_DETAILS, GUMBO_TAG_DIR,       GUMBO_TAG_DIV,        GUMBO_TAG_DL,
            GUMBO_TAG_DT,      GUMBO_TAG_FIELDSET,  GUMBO_TAG_FIGCAPTION, GUMBO_TAG_FIGURE,
            GUMBO_TAG_FORM,    GUMBO_TAG_H1,        GUMBO_TAG_H2,         GUMBO_TAG_H3,
            GUMBO_TAG_H4,      GUMBO_TAG_H5,        GUMBO_TAG_H6,         GUMBO_TAG_HEADER,
            GUMBO_TAG_HGROUP,  GUMBO_TAG_HR,        GUMBO_TAG_LEGEND,     GUMBO_TAG_LI,
            GUMBO_TAG_LISTING, GUMBO_TAG_MAIN,      GUMBO_TAG_MENU,       GUMBO_TAG_OL,
            GUMBO_TAG_P,       GUMBO_TAG_PLAINTEXT, GUMBO_TAG_PRE,        GUMBO_TAG_SECTION,
            GUMBO_TAG_SUMMARY, GUMBO_TAG_TABLE,     GUMBO_TAG_TBODY,      GUMBO_TAG_TD,
            GUMBO_TAG_TFOOT,   GUMBO_TAG_TH,        GUMBO_TAG_THEAD,      GUMBO_TAG_TR,
            GUMBO_TAG_UL,      GUMBO_TAG_XMP});
}

bool IsNeverShown(GumboTag tag) {
  return IsOneOf(tag,
                 {GUMBO_TAG_HEAD,     GUMBO_TAG_SCRIPT,   GUMBO_TAG_STYLE,    GUMBO_TAG_TEMPLATE,
                  GUMBO_TAG_NOSCRIPT, GUMBO_TAG_IFRAME,   GUMBO_TAG_NOFRAMES, GUMBO_TAG_NOEMBED,
                  GUMBO_TAG_OBJECT,   GUMBO_TAG_APPLET,   GUMBO_TAG_EMBED,    GUMBO_TAG_AUDIO,
                  GUMBO_TAG_VIDEO,    GUMBO_TAG_CANVAS,   GUMBO_TAG_SVG,      GUMBO_TAG_SELECT,
                  GUMBO_TAG_DATALIST, GUMBO_TAG_TEXTAREA, GUMBO_TAG_BUTTON,   GUMBO_TAG_TITLE,
                  GUMBO_TAG_NAV,      GUMBO_TAG_FOOTER});
}

int HeadingLevel(GumboTag tag) {
  static constexpr GumboTag kHeadings[] = {GUMBO_TAG_H1, GUMBO_TAG_H2, GUMBO_TAG_H3,
                                           GUMBO_TAG_H4, GUMBO_TAG_H5, GUMBO_TAG_H6};
  for (int i = 0; i < 6; ++i) {
    if (tag == kHeadings[i]) return i + 1;
  }
  return 0;
}

std::string_view Attribute(const GumboElement& element, const char* name) {
  const GumboAttribute* attribute = gumbo_get_attribute(&element.attributes, name);
  return attribute == nullptr ? std::string_view() : std::string_view(attribute->value);
}

bool IsHidden(const GumboElement& element) {
  if (gumbo_get_attribute(&element.attributes, "hidden") != nullptr) return true;
  if (Attribute(element, "aria-hidden") == "true") return true;
  const std::string_view role = Attribute(element, "role");
  if (role == "navigation" || role == "banner" || role == "contentinfo" || role == "search") {
    return true;
  }
  std::string style;
  for (const char c : Attribute(element, "style").substr(0, 4096)) {
    if (c == ' ' || c == '\t' || c == '\n') continue;
    style += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return style.find("display:none") != style.npos || style.find("visibility:hidden") != style.npos;
}

bool IsElement(const GumboNode* node) {
  return node->type == GUMBO_NODE_ELEMENT || node->type == GUMBO_NODE_TEMPLATE;
}

// Calls enter(node) before the children of each element and leave(node) after them, and text(node)
// for the other nodes; enter returning false skips the element. No recursion: depth is the input's
// choice.
template <typename Enter, typename Leave, typename Text>
void Walk(const GumboNode* root, const Enter& enter, const Leave& leave, const Text& text) {
  struct Frame {
    const GumboNode* node;
    unsigned next;
  };
  std::vector<Frame> stack;
  if (enter(root)) stack.push_back({root, 0});
  while (!stack.empty()) {
    Frame& top = stack.back();
    const GumboVector& children = top.node->v.element.children;
    if (top.next == children.length) {
      leave(top.node);
      stack.pop_back();
      continue;
    }
    const auto* child = static_cast<const GumboNode*>(children.data[top.next++]);
    if (!IsElement(child)) {
      text(child);
    } else if (enter(child)) {
      stack.push_back({child, 0});
    }
  }
}

// What the tree says before any text is taken: title, main element, tables that are layout.
struct Outline {
  const GumboNode* main = nullptr;  // the only <main> shown, if there is exactly one
  int mains = 0;
  const GumboNode* title = nullptr;
  std::unordered_set<const GumboNode*> layout_tables;
};

Outline FindOutline(const GumboNode* root) {
  Outline out;
  std::vector<const GumboNode*> tables;
  Walk(
      root,
      [&](const GumboNode* node) {
        const GumboElement& element = node->v.element;
        const GumboTag tag = element.tag;
        if (tag == GUMBO_TAG_TITLE && out.title == nullptr) out.title = node;
        if (tag != GUMBO_TAG_HEAD && (IsNeverShown(tag) || IsHidden(element))) return false;
        if (tag == GUMBO_TAG_MAIN || Attribute(element, "role") == "main") {
          out.main = node;
          ++out.mains;
        }
        // Data tables hold no tables, headings or code blocks; layout tables do.
        if (!tables.empty() &&
            (tag == GUMBO_TAG_TABLE || tag == GUMBO_TAG_PRE || HeadingLevel(tag) > 0)) {
          out.layout_tables.insert(tables.back());
        }
        if (tag == GUMBO_TAG_TABLE) {
          if (Attribute(element, "role") == "presentation") out.layout_tables.insert(node);
          tables.push_back(node);
        }
        return true;
      },
      [&](const GumboNode* node) {
        if (node->v.element.tag == GUMBO_TAG_TABLE) tables.pop_back();
      },
      [](const GumboNode*) {});
  if (out.mains != 1) out.main = nullptr;
  return out;
}

// Walks the visible tree and lists its text in pieces, each with its unit.
class Collector {
 public:
  Collector(std::string_view html, const Outline& outline) : html_(html), outline_(outline) {}

  void Collect(const GumboNode* root) {
    Walk(
        root, [this](const GumboNode* node) { return Enter(node); },
        [this](const GumboNode* node) { Leave(node); },
        [this](const GumboNode* node) { Text(node); });
  }

  std::vector<HtmlPiece> pieces;
  std::vector<HtmlUnit> units;

  bool has_words() const {
    return std::any_of(pieces.begin(), pieces.end(), [](const HtmlPiece& piece) {
      size_t begin = 0, end = piece.atom.text.size();
      TrimBlanks(piece.atom.text, &begin, &end);
      return begin < end;
    });
  }

 private:
  bool Enter(const GumboNode* node) {
    const GumboElement& element = node->v.element;
    const GumboTag tag = element.tag;
    if (IsNeverShown(tag) || IsHidden(element)) return false;
    // Outside of the content proper these are the site's, inside they are the page's.
    if ((tag == GUMBO_TAG_HEADER || tag == GUMBO_TAG_ASIDE) && article_ == 0) return false;
    if (tag == GUMBO_TAG_BR) return AddBreak(element), false;
    if (tag == GUMBO_TAG_MAIN || tag == GUMBO_TAG_ARTICLE || Attribute(element, "role") == "main") {
      ++article_;
    }
    if (IsDataTable(node)) {
      ++table_depth_;
      ++table_number_;
    }
    if (tag == GUMBO_TAG_PRE) ++pre_;
    if (tag == GUMBO_TAG_LI || tag == GUMBO_TAG_DD || tag == GUMBO_TAG_DT) ++item_;
    if (const int level = HeadingLevel(tag); level > 0) heading_ = level;
    if (table_depth_ > 0) {
      if (tag == GUMBO_TAG_TR || tag == GUMBO_TAG_CAPTION) {
        open_ = false;
      } else if (tag == GUMBO_TAG_TD || tag == GUMBO_TAG_TH) {
        AddCell(element, tag == GUMBO_TAG_TH);
      } else if (IsBlock(tag)) {
        AddBreak(element);
      }
    } else if (IsBlock(tag)) {
      open_ = false;
    }
    return true;
  }

  void Leave(const GumboNode* node) {
    const GumboTag tag = node->v.element.tag;
    if (tag == GUMBO_TAG_MAIN || tag == GUMBO_TAG_ARTICLE ||
        Attribute(node->v.element, "role") == "main") {
      --article_;
    }
    if (tag == GUMBO_TAG_PRE) --pre_;
    if (tag == GUMBO_TAG_LI || tag == GUMBO_TAG_DD || tag == GUMBO_TAG_DT) --item_;
    if (HeadingLevel(tag) > 0) heading_ = 0;
    if (IsDataTable(node)) {
      --table_depth_;
      open_ = false;
    }
    if (table_depth_ == 0 && IsBlock(tag)) open_ = false;
    if (tag == GUMBO_TAG_TR || tag == GUMBO_TAG_CAPTION) open_ = false;
  }

  void Text(const GumboNode* node) {
    if (node->type != GUMBO_NODE_TEXT && node->type != GUMBO_NODE_WHITESPACE &&
        node->type != GUMBO_NODE_CDATA) {
      return;
    }
    const GumboText& text = node->v.text;
    const char* const data = text.original_text.data;
    if (data < html_.data() || data > html_.data() + html_.size()) return;  // gumbo's own words
    const size_t begin = static_cast<size_t>(data - html_.data());
    const size_t size = std::min(text.original_text.length, html_.size() - begin);
    atoms_.clear();
    AlignText(html_.substr(begin, size), text.text, begin, &atoms_);
    const size_t unit = CurrentUnit();
    for (const HtmlAtom& atom : atoms_) pieces.push_back({atom, unit});
  }

  void AddBreak(const GumboElement& element) {
    if (!open_) return;
    const char* const data = element.original_tag.data;
    if (data < html_.data() || data + element.original_tag.length > html_.data() + html_.size() ||
        element.original_tag.length < 2) {
      return;
    }
    pieces.push_back(
        {{"\n", static_cast<uint64_t>(data - html_.data()), element.original_tag.length, true},
         CurrentUnit()});
  }

  void AddCell(const GumboElement& element, bool header) {
    const bool first = !open_;
    const size_t unit = CurrentUnit();
    units[unit].header = header && (first || units[unit].header);
    const GumboStringPiece& tag = element.original_tag;
    if (first || tag.length < kMinCellTag || tag.data < html_.data() ||
        tag.data + tag.length > html_.data() + html_.size()) {
      return;
    }
    pieces.push_back(
        {{"", static_cast<uint64_t>(tag.data - html_.data()), tag.length, true}, unit, true});
  }

  size_t CurrentUnit() {
    if (!open_) {
      HtmlUnit unit;
      if (table_depth_ > 0) {
        unit.kind = BlockKind::kTable;
        unit.table = table_number_;
      } else if (heading_ > 0) {
        unit.kind = BlockKind::kHeading;
        unit.level = heading_;
      } else if (pre_ > 0) {
        unit.kind = BlockKind::kCode;
      } else if (item_ > 0) {
        unit.kind = BlockKind::kListItem;
      }
      units.push_back(unit);
      open_ = true;
    }
    return units.size() - 1;
  }

  bool IsDataTable(const GumboNode* node) const {
    return node->v.element.tag == GUMBO_TAG_TABLE && !outline_.layout_tables.contains(node);
  }

  const std::string_view html_;
  const Outline& outline_;
  std::vector<HtmlAtom> atoms_;
  bool open_ = false;  // text goes on in the last unit
  int article_ = 0, pre_ = 0, item_ = 0, heading_ = 0, table_depth_ = 0;
  uint32_t table_number_ = 0;
};

}  // namespace

HtmlContent CollectContent(std::string_view html, const GumboInternalOutput& output) {
  const Outline outline = FindOutline(output.root);
  HtmlContent content;
  if (outline.title != nullptr) {
    const GumboVector& children = outline.title->v.element.children;
    for (unsigned i = 0; i < children.length; ++i) {
      const auto* child = static_cast<const GumboNode*>(children.data[i]);
      if (child->type == GUMBO_NODE_TEXT) content.title += child->v.text.text;
    }
  }
  if (outline.main != nullptr) {
    Collector collector(html, outline);
    collector.Collect(outline.main);
    if (collector.has_words()) {
      content.pieces = std::move(collector.pieces);
      content.units = std::move(collector.units);
    }
  }
  if (content.pieces.empty()) {
    Collector collector(html, outline);
    collector.Collect(output.root);
    content.pieces = std::move(collector.pieces);
    content.units = std::move(collector.units);
  }
  // Misnested markup moves text about in the tree; the reader and the map want the order of the
  // file.
  auto before = [](const HtmlPiece& a, const HtmlPiece& b) {
    return a.atom.source_begin < b.atom.source_begin;
  };
  if (!std::is_sorted(content.pieces.begin(), content.pieces.end(), before)) {
    std::stable_sort(content.pieces.begin(), content.pieces.end(), before);
  }
  return content;
}

}  // namespace cairn::retrieval
