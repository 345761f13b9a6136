#include "retrieval/lexical/document_terms.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <unordered_map>

#include "retrieval/varint.h"

namespace cairn::retrieval {
namespace {

using Posting = DocumentTerms::Posting;

// Terms in order of first appearance, each with its postings.
class Collector {
 public:
  void Add(std::string_view term, uint32_t chunk) {
    auto found = ids_.find(term);
    if (found == ids_.end()) {
      const std::string& owned = names_.emplace_back(term);
      found = ids_.emplace(owned, static_cast<uint32_t>(postings_.size())).first;
      postings_.emplace_back();
    }
    std::vector<Posting>& list = postings_[found->second];
    if (list.empty() || list.back().chunk != chunk) {
      list.push_back({chunk, 1});
    } else if (list.back().tf < kMaxTermFrequency) {
      ++list.back().tf;
    }
  }

  void Finish(DocumentTerms* out) {
    std::vector<uint32_t> order(names_.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return names_[a] < names_[b]; });
    out->begins.push_back(0);
    for (const uint32_t i : order) {
      out->terms.push_back(std::move(names_[i]));
      out->postings.insert(out->postings.end(), postings_[i].begin(), postings_[i].end());
      out->begins.push_back(static_cast<uint32_t>(out->postings.size()));
    }
  }

 private:
  std::deque<std::string> names_;  // stable addresses for the views below
  std::unordered_map<std::string_view, uint32_t> ids_;
  std::vector<std::vector<Posting>> postings_;
};

}  // namespace

DocumentTerms AnalyzeDocument(const Analyzer& analyzer,
                              const std::vector<std::vector<std::string_view>>& texts) {
  DocumentTerms out;
  Collector collector;
  for (uint32_t chunk = 0; chunk < texts.size(); ++chunk) {
    uint32_t length = 0;
    for (const std::string_view text : texts[chunk]) {
      analyzer.Analyze(text, [&](const Term& term) {
        collector.Add(term.text, chunk);
        length += !term.stop_word;
      });
    }
    out.lengths.push_back(length);
  }
  collector.Finish(&out);
  return out;
}

// Layout: docs/formats/index.md, "terms".
std::string EncodeDocumentTerms(const DocumentTerms& terms) {
  std::string out;
  PutVarint(terms.lengths.size(), &out);
  for (const uint32_t length : terms.lengths) PutVarint(length, &out);
  PutVarint(terms.terms.size(), &out);
  std::string_view previous;
  for (size_t i = 0; i < terms.terms.size(); ++i) {
    const std::string_view term = terms.terms[i];
    const size_t shared =
        std::mismatch(term.begin(), term.end(), previous.begin(), previous.end()).first -
        term.begin();
    PutVarint(shared, &out);
    PutBytes(term.substr(shared), &out);
    previous = term;
    const uint32_t begin = terms.begins[i], end = terms.begins[i + 1];
    PutVarint(end - begin, &out);
    uint32_t next = 0;
    for (uint32_t p = begin; p < end; ++p) {
      PutVarint(terms.postings[p].chunk - next, &out);
      PutVarint(terms.postings[p].tf, &out);
      next = terms.postings[p].chunk + 1;
    }
  }
  return out;
}

bool DecodeDocumentTerms(std::string_view in, DocumentTerms* out) {
  *out = DocumentTerms();
  uint64_t num_chunks, num_terms;
  if (!TakeVarint(&in, &num_chunks) || num_chunks > in.size()) return false;
  out->lengths.resize(num_chunks);
  for (uint32_t& length : out->lengths) {
    if (!TakeVarint(&in, &length)) return false;
  }
  if (!TakeVarint(&in, &num_terms) || num_terms > in.size()) return false;
  out->terms.reserve(num_terms);
  out->begins.reserve(num_terms + 1);
  out->begins.push_back(0);
  for (uint64_t i = 0; i < num_terms; ++i) {
    uint64_t shared, count;
    std::string_view suffix;
    if (!TakeVarint(&in, &shared) || !TakeBytes(&in, &suffix) || !TakeVarint(&in, &count))
      return false;
    const std::string_view previous = i == 0 ? std::string_view() : out->terms.back();
    if (shared > previous.size() || shared + suffix.size() > kMaxTermBytes) return false;
    std::string term(previous.substr(0, shared));
    term.append(suffix);
    if (i > 0 && term <= previous) return false;
    uint64_t next = 0;
    if (count == 0 || count > num_chunks) return false;
    for (uint64_t p = 0; p < count; ++p) {
      uint32_t gap;
      Posting posting;
      if (!TakeVarint(&in, &gap) || !TakeVarint(&in, &posting.tf) || posting.tf == 0) return false;
      if (next + gap >= num_chunks) return false;
      posting.chunk = static_cast<uint32_t>(next + gap);
      next = posting.chunk + uint64_t{1};
      out->postings.push_back(posting);
    }
    out->terms.push_back(std::move(term));
    out->begins.push_back(static_cast<uint32_t>(out->postings.size()));
  }
  return in.empty();
}

}  // namespace cairn::retrieval
