#include "retrieval/parse/parse.h"

#include <algorithm>
#include <utility>

#include "common/sentences.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "retrieval/parse/encoding.h"
#include "retrieval/parse/parsers.h"

namespace cairn::retrieval {
namespace {

constexpr char kPlain[] = "text/plain";
constexpr char kMarkdown[] = "text/markdown";
constexpr char kHtml[] = "text/html";
constexpr size_t kMaxTitleBytes = 512;

std::string AsciiLower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

std::string_view ByDeclaration(std::string_view type) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {kPlain, kPlain}, {kMarkdown, kMarkdown},           {"text/x-markdown", kMarkdown},
      {kHtml, kHtml},   {"application/xhtml+xml", kHtml},
  };
  for (const auto& [name, ours] : kTypes) {
    if (type == name) return ours;
  }
  return {};
}

std::string_view ByExtension(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kExtensions[] = {
      {"txt", kPlain},         {"text", kPlain},   {"md", kMarkdown},
      {"markdown", kMarkdown}, {"mkd", kMarkdown}, {"mdown", kMarkdown},
      {"html", kHtml},         {"htm", kHtml},     {"xhtml", kHtml},
  };
  const size_t slash = name.find_last_of("/\\");
  if (slash != std::string_view::npos) name.remove_prefix(slash + 1);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string extension = AsciiLower(name.substr(dot + 1));
  for (const auto& [known, type] : kExtensions) {
    if (extension == known) return type;
  }
  return {};
}

std::string_view ByContent(std::string_view source) {
  if (source.starts_with("\xEF\xBB\xBF")) source.remove_prefix(3);
  source.remove_prefix(std::min(source.find_first_not_of(" \t\r\n"), source.size()));
  const std::string start = AsciiLower(source.substr(0, 16));
  return start.starts_with("<!doctype html") || start.starts_with("<html") ? kHtml : kPlain;
}

}  // namespace

absl::StatusOr<std::string> ResolveMediaType(std::string_view declared, std::string_view name,
                                             std::string_view source) {
  if (declared.empty()) {
    const std::string_view by_name = ByExtension(name);
    return std::string(by_name.empty() ? ByContent(source) : by_name);
  }
  std::string_view essence = declared.substr(0, declared.find(';'));
  while (!essence.empty() && essence.back() == ' ') essence.remove_suffix(1);
  const std::string_view type = ByDeclaration(AsciiLower(essence));
  if (!type.empty()) return std::string(type);
  return WithReason(
      WithField(absl::InvalidArgumentError(StrCat("media type '", declared.substr(0, 100),
                                                  "' is not one of text/plain, text/markdown, "
                                                  "text/html")),
                "media_type"),
      kReasonMediaType);
}

absl::StatusOr<ParsedDocument> ParseDocument(std::string_view source, std::string_view media_type,
                                             const ParseLimits& limits) {
  const uint64_t max_bytes = media_type == kHtml
                                 ? std::min(limits.max_source_bytes, limits.max_html_bytes)
                                 : limits.max_source_bytes;
  if (source.size() > max_bytes) {
    return WithReason(
        absl::InvalidArgumentError(StrCat("the ", media_type, " file has ", source.size(),
                                          " bytes; the limit is ", max_bytes)),
        kReasonTooLarge);
  }
  CAIRN_ASSIGN_OR_RETURN(DecodedText decoded, DecodeSource(source, limits.max_map_runs));
  const std::string encoding = decoded.encoding;
  absl::StatusOr<ParsedDocument> parsed =
      media_type == kMarkdown ? ParseMarkdown(std::move(decoded), limits)
      : media_type == kHtml   ? ParseHtml(std::move(decoded), limits)
                              : ParsePlainText(std::move(decoded));
  CAIRN_RETURN_IF_ERROR(parsed.status());
  if (parsed->blocks.empty()) {
    return WithReason(absl::InvalidArgumentError("the file has no visible text"), kReasonEmpty);
  }
  parsed->title.resize(Utf8Floor(parsed->title, kMaxTitleBytes));
  parsed->encoding = encoding;
  uint64_t kept = 0;
  for (const SourceRun& run : parsed->map.runs()) kept += run.source_size;
  parsed->removed_bytes = source.size() - kept;
  return parsed;
}

}  // namespace cairn::retrieval
