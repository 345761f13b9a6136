#include "retrieval/lexical/bm25.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "retrieval/text/question_words.h"

namespace cairn::retrieval {
namespace {

constexpr uint32_t kEnd = UINT32_MAX;
// Bounds are sums of rounded numbers in another order than the scores: this much more makes them
// bounds again.
constexpr double kSlack = 1 + 1e-9;

double Contribution(double weighted_idf, uint32_t tf, double norm) {
  return weighted_idf * tf / (tf + norm);
}

// Walks one postings list of one segment.
class Cursor {
 public:
  Cursor(const Bm25Query& query, size_t term, const PostingsList& list)
      : query_(&query),
        list_(list),
        term_(term),
        weighted_idf_(query.terms[term].weight * query.terms[term].idf) {
    for (size_t i = 0; i < list_.blocks.size(); ++i) max_ = std::max(max_, BlockBound(i));
  }

  size_t term() const { return term_; }
  double max() const { return max_; }
  uint32_t chunk() const {
    return position_ < list_.chunks.size() ? list_.chunks[position_] : kEnd;
  }
  double Score(double norm) const {
    return Contribution(weighted_idf_, list_.tfs[position_], norm);
  }
  void Next() { ++position_; }

  // Moves to the first posting at or after `target`; never backwards.
  void Seek(uint32_t target) {
    if (chunk() >= target) return;
    SeekBlock(target);
    position_ = std::max(position_, block_ * LexicalSegment::kBlockSize);
    const size_t end = std::min((block_ + 1) * LexicalSegment::kBlockSize, list_.chunks.size());
    if (position_ >= end) {
      position_ = list_.chunks.size();
      return;
    }
    const auto found =
        std::lower_bound(list_.chunks.begin() + position_, list_.chunks.begin() + end, target);
    position_ = static_cast<size_t>(found - list_.chunks.begin());
  }

  // The bound and the last chunk of the block where `target` would be; {0, kEnd} past the end.
  std::pair<double, uint32_t> BlockAt(uint32_t target) {
    SeekBlock(target);
    if (block_ == list_.blocks.size()) return {0, kEnd};
    return {BlockBound(block_), list_.blocks[block_].last_chunk};
  }

 private:
  void SeekBlock(uint32_t target) {
    while (block_ < list_.blocks.size() && list_.blocks[block_].last_chunk < target) ++block_;
  }
  double BlockBound(size_t i) const {
    const PostingBlock& block = list_.blocks[i];
    return Contribution(weighted_idf_, block.max_tf, query_->Norm(block.min_length));
  }

  const Bm25Query* query_;
  PostingsList list_;
  size_t term_;
  double weighted_idf_;
  double max_ = 0;
  size_t position_ = 0;
  size_t block_ = 0;  // the first block whose last chunk is not before the furthest target so far
};

// MaxScore over one segment.
class SegmentScan {
 public:
  SegmentScan(const Bm25Query& query, const LexicalView& view, uint32_t segment, TopK* top)
      : query_(query), view_(view), segment_(segment), top_(top), scores_(query.terms.size()) {
    for (size_t term = 0; term < query.terms.size(); ++term) {
      const PostingsList list = view.segment->Find(query.terms[term].text);
      if (!list.chunks.empty()) cursors_.emplace_back(query, term, list);
    }
    std::sort(cursors_.begin(), cursors_.end(),
              [](const Cursor& a, const Cursor& b) { return a.max() < b.max(); });
    double sum = 0;
    for (const Cursor& cursor : cursors_) bounds_.push_back(sum += cursor.max());
  }

  void Run() {
    uint32_t window_end = 0;
    bool in_window = false;
    double window_bound = 0;
    while (true) {
      // Lists before first_ cannot lift a chunk into the result by themselves.
      const double threshold = top_->threshold();
      const size_t before = first_;
      while (first_ < cursors_.size() && bounds_[first_] * kSlack < threshold) ++first_;
      if (first_ == cursors_.size()) return;
      if (first_ != before) in_window = false;

      uint32_t chunk = kEnd;
      for (size_t i = first_; i < cursors_.size(); ++i)
        chunk = std::min(chunk, cursors_[i].chunk());
      if (chunk == kEnd) return;
      if (!in_window || chunk > window_end) {
        window_bound = first_ > 0 ? bounds_[first_ - 1] : 0;
        window_end = kEnd;
        for (size_t i = first_; i < cursors_.size(); ++i) {
          const auto [bound, last] = cursors_[i].BlockAt(chunk);
          window_bound += bound;
          window_end = std::min(window_end, last);
        }
        in_window = true;
      }
      if (window_bound * kSlack < threshold) {
        if (window_end == kEnd) return;
        for (size_t i = first_; i < cursors_.size(); ++i) cursors_[i].Seek(window_end + 1);
        continue;
      }
      if (view_.eligible == nullptr || view_.eligible->Get(chunk)) {
        Evaluate(chunk, threshold);
      }
      for (size_t i = first_; i < cursors_.size(); ++i) {
        if (cursors_[i].chunk() == chunk) cursors_[i].Next();
      }
    }
  }

 private:
  void Evaluate(uint32_t chunk, double threshold) {
    const double norm = query_.Norm(view_.segment->length(chunk));
    std::fill(scores_.begin(), scores_.end(), 0.0);
    double so_far = 0;
    const auto add = [&](Cursor& cursor) {
      if (cursor.chunk() != chunk) return;
      so_far += scores_[cursor.term()] = cursor.Score(norm);
    };
    for (size_t i = first_; i < cursors_.size(); ++i) add(cursors_[i]);
    for (size_t i = first_; i-- > 0;) {
      if ((so_far + bounds_[i]) * kSlack < threshold) return;
      cursors_[i].Seek(chunk);
      add(cursors_[i]);
    }
    // In query order, so that the sum does not depend on the order of evaluation.
    double score = 0;
    for (const double part : scores_) score += part;
    top_->Offer({segment_, chunk, score});
  }

  const Bm25Query& query_;
  const LexicalView& view_;
  uint32_t segment_;
  TopK* top_;
  std::vector<Cursor> cursors_;  // by bound, ascending
  std::vector<double> bounds_;   // bounds_[i]: of cursors 0..i together
  std::vector<double> scores_;   // by query term
  size_t first_ = 0;             // first essential list
};

AnalyzedQuery AnalyzeText(const Analyzer& analyzer, std::string_view text) {
  AnalyzedQuery words, stop_words;
  std::unordered_map<std::string, size_t> places;  // stop words have a namespace of their own
  analyzer.Analyze(text, [&](const Term& term) {
    std::vector<QueryTerm>& terms = (term.stop_word ? stop_words : words).terms;
    const auto [place, is_new] = places.emplace(term.text, terms.size());
    if (is_new) {
      terms.push_back({std::string(term.text), 1});
    } else {
      terms[place->second].weight += 1;
    }
  });
  if (!words.terms.empty() || stop_words.terms.empty()) return words;
  stop_words.stop_words_only = true;
  return stop_words;
}

}  // namespace

AnalyzedQuery AnalyzeQuery(const Analyzer& analyzer, std::string_view text) {
  SplitQuestion question = SplitQuestionWords(text);
  AnalyzedQuery rest = AnalyzeText(analyzer, question.rest);
  if (question.words.empty()) return rest;
  if (rest.terms.empty() || rest.stop_words_only) return AnalyzeText(analyzer, text);
  rest.question_words = std::move(question.words);
  return rest;
}

Bm25Query PrepareBm25(const std::vector<QueryTerm>& terms, std::span<const LexicalView> views,
                      uint64_t num_chunks, uint64_t total_length) {
  Bm25Query query;
  query.num_chunks = num_chunks;
  if (num_chunks == 0) return query;
  // A collection of empty chunks has length 0 everywhere; any positive average serves.
  query.average_length =
      total_length == 0 ? 1 : static_cast<double>(total_length) / static_cast<double>(num_chunks);
  for (const QueryTerm& term : terms) {
    uint64_t df = 0;
    for (const LexicalView& view : views) {
      const PostingsList list = view.segment->Find(term.text);
      df += list.chunks.size();
      if (view.deleted == nullptr) continue;
      for (const uint32_t chunk : list.chunks) df -= view.deleted->Get(chunk);
    }
    if (df == 0) continue;
    const double n = static_cast<double>(num_chunks), d = static_cast<double>(df);
    query.terms.push_back({term.text, term.weight, df, std::log(1 + (n - d + 0.5) / (d + 0.5))});
  }
  return query;
}

std::vector<ScoredChunk> SearchBm25(const Bm25Query& query, std::span<const LexicalView> views,
                                    size_t k, const ChunkIdFn& id) {
  TopK top(k, id);
  for (uint32_t i = 0; i < views.size(); ++i) SegmentScan(query, views[i], i, &top).Run();
  return top.Take();
}

std::vector<TermExplanation> ExplainBm25(const Bm25Query& query, const LexicalView& view,
                                         uint32_t chunk) {
  std::vector<TermExplanation> out;
  const double norm = query.Norm(view.segment->length(chunk));
  for (const Bm25Query::Term& term : query.terms) {
    const PostingsList list = view.segment->Find(term.text);
    const auto found = std::lower_bound(list.chunks.begin(), list.chunks.end(), chunk);
    if (found == list.chunks.end() || *found != chunk) continue;
    const uint32_t tf = list.tfs[static_cast<size_t>(found - list.chunks.begin())];
    out.push_back({term.text, term.weight, tf, term.df, query.num_chunks, term.idf, norm,
                   Contribution(term.weight * term.idf, tf, norm)});
  }
  return out;
}

}  // namespace cairn::retrieval
