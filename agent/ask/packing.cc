#include "agent/ask/packing.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/strings.h"

namespace cairn::agent {
namespace {

// Two spans of one document say the same when the smaller lies in the other by more than this
// share.
constexpr double kSameSpanShare = 0.8;

Source SourceOf(const Passage& p) {
  return {0,          p.document_id, p.version,  p.title, p.heading_path, p.span_begin,
          p.span_end, {p.chunk_id},  p.language, p.score};
}

bool SameDocument(const Passage& a, const Passage& b) {
  return a.document_id == b.document_id && a.version == b.version;
}

bool MostlyTheSame(const Passage& a, const Passage& b) {
  if (a.chunk_id == b.chunk_id || a.text == b.text) return true;
  if (!SameDocument(a, b)) return false;
  const uint64_t begin = std::max(a.span_begin, b.span_begin),
                 end = std::min(a.span_end, b.span_end);
  const uint64_t smaller = std::min(a.span_end - a.span_begin, b.span_end - b.span_begin);
  return end > begin &&
         static_cast<double>(end - begin) > kSameSpanShare * static_cast<double>(smaller);
}

std::string HeadingOf(const Passage& p) {
  std::string heading = p.title.empty() ? p.document_id : p.title;
  for (const std::string& part : p.heading_path) {
    if (part != heading) heading += " > " + part;
  }
  std::replace(heading.begin(), heading.end(), '\n', ' ');
  return heading;
}

// The text of `next` behind the end of `previous`, when they overlap in the source; else all of it.
std::string_view WithoutOverlap(const Passage& previous, const Passage& next) {
  if (next.span_begin >= previous.span_end) return next.text;
  for (const TextRun& run : next.runs) {
    if (run.source_begin + run.source_size <= previous.span_end) continue;
    const uint64_t inside =
        previous.span_end > run.source_begin ? previous.span_end - run.source_begin : 0;
    const uint64_t from = run.text_begin + (run.text_size == run.source_size ? inside : 0);
    return std::string_view(next.text).substr(std::min<uint64_t>(from, next.text.size()));
  }
  return {};
}

PackedSource Merge(std::vector<Passage> parts) {
  PackedSource packed{SourceOf(parts[0]), {}, HeadingOf(parts[0]), parts[0].text};
  for (size_t i = 1; i < parts.size(); ++i) {
    packed.source.chunk_ids.push_back(parts[i].chunk_id);
    packed.source.span_end = std::max(packed.source.span_end, parts[i].span_end);
    packed.source.score = std::max(packed.source.score, parts[i].score);
    const std::string_view rest = WithoutOverlap(parts[i - 1], parts[i]);
    if (!rest.empty()) StrAppend(&packed.text, "\n", rest);
  }
  packed.parts = std::move(parts);
  return packed;
}

}  // namespace

std::string RenderSource(const PackedSource& source) {
  return StrCat("[", source.source.number, "] ", source.heading, "\n", source.text, "\n");
}

absl::StatusOr<Packed> Pack(std::vector<Passage> passages, int token_budget,
                            const TokenCounter& count_tokens) {
  Packed packed;
  std::vector<Passage> chosen;
  for (Passage& passage : passages) {
    const bool duplicate = std::any_of(chosen.begin(), chosen.end(),
                                       [&](const Passage& c) { return MostlyTheSame(c, passage); });
    if (duplicate) {
      packed.left_out.push_back({SourceOf(passage), "DUPLICATE"});
      continue;
    }
    // Counted one by one; merging only takes text away.
    const PackedSource alone = Merge({passage});
    CAIRN_ASSIGN_OR_RETURN(const int tokens, count_tokens(RenderSource(alone)));
    if (packed.num_tokens + tokens > token_budget) {
      packed.left_out.push_back({SourceOf(passage), "TOKEN_BUDGET"});
      continue;
    }
    packed.num_tokens += tokens;
    chosen.push_back(std::move(passage));
  }

  std::map<std::string, double> best;  // by document
  for (const Passage& p : chosen) {
    const auto [it, added] = best.emplace(p.document_id, p.score);
    if (!added) it->second = std::max(it->second, p.score);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](const Passage& a, const Passage& b) {
    if (a.document_id != b.document_id) {
      const double score_a = best[a.document_id], score_b = best[b.document_id];
      return score_a != score_b ? score_a > score_b : a.document_id < b.document_id;
    }
    return std::tie(a.version, a.ordinal, a.span_begin) <
           std::tie(b.version, b.ordinal, b.span_begin);
  });

  for (size_t i = 0; i < chosen.size();) {
    std::vector<Passage> parts = {chosen[i]};
    for (++i; i < chosen.size(); ++i) {
      const Passage& last = parts.back();
      if (!SameDocument(last, chosen[i]) || chosen[i].ordinal != last.ordinal + 1 ||
          chosen[i].heading_path != last.heading_path) {
        break;
      }
      parts.push_back(chosen[i]);
    }
    packed.sources.push_back(Merge(std::move(parts)));
    packed.sources.back().source.number = static_cast<int>(packed.sources.size());
  }
  return packed;
}

}  // namespace cairn::agent
