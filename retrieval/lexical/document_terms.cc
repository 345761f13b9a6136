#include "retrieval/lexical/document_terms.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "retrieval/varint.h"

namespace cairn::retrieval {
namespace {

using Posting = DocumentTerms::Posting;

// Gathers postings in text order, then sorts them by term. Flat arrays: a document has thousands of
// short terms, and a node and a list for each cost more than analysing it.
class Collector {
 public:
  void Add(std::string_view term, uint32_t chunk) {
    const uint32_t id = IdOf(term);
    if (last_[id] != kNone && postings_[last_[id]].chunk == chunk) {
      uint16_t& tf = postings_[last_[id]].tf;
      if (tf < kMaxTermFrequency) ++tf;
      return;
    }
    last_[id] = static_cast<uint32_t>(postings_.size());
    postings_.push_back({chunk, 1});
    term_of_.push_back(id);
  }

  void Finish(DocumentTerms* out) const {
    const size_t num_terms = last_.size();
    std::vector<uint32_t> order(num_terms), rank(num_terms);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return Name(a) < Name(b); });
    out->terms.reserve(num_terms);
    for (uint32_t r = 0; r < num_terms; ++r) {
      rank[order[r]] = r;
      out->terms.emplace_back(Name(order[r]));
    }
    // A counting sort keeps each term's postings in chunk order.
    out->begins.assign(num_terms + 1, 0);
    for (const uint32_t id : term_of_) ++out->begins[rank[id] + 1];
    std::partial_sum(out->begins.begin(), out->begins.end(), out->begins.begin());
    std::vector<uint32_t> next(out->begins.begin(), out->begins.end() - 1);
    out->postings.resize(postings_.size());
    for (size_t i = 0; i < postings_.size(); ++i)
      out->postings[next[rank[term_of_[i]]]++] = postings_[i];
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  std::string_view Name(uint32_t id) const {
    return std::string_view(names_).substr(name_begins_[id],
                                           name_begins_[id + 1] - name_begins_[id]);
  }

  // Linear probing in a table of ids that is at most half full.
  uint32_t IdOf(std::string_view term) {
    if (last_.size() * 2 >= slots_.size()) Grow();
    uint32_t& slot = Slot(term);
    if (slot == kNone) {
      slot = static_cast<uint32_t>(last_.size());
      last_.push_back(kNone);
      names_.append(term);
      name_begins_.push_back(names_.size());
    }
    return slot;
  }
  uint32_t& Slot(std::string_view term) {
    const size_t mask = slots_.size() - 1;
    size_t at = std::hash<std::string_view>()(term) & mask;
    while (slots_[at] != kNone && Name(slots_[at]) != term) at = (at + 1) & mask;
    return slots_[at];
  }
  void Grow() {
    slots_.assign(std::max<size_t>(256, slots_.size() * 4), kNone);
    for (uint32_t id = 0; id < last_.size(); ++id) Slot(Name(id)) = id;
  }

  std::string names_;  // all terms in order of first appearance, one after another
  std::vector<size_t> name_begins_ = {0};
  std::vector<uint32_t> last_;     // [terms] the term's last posting
  std::vector<uint32_t> slots_;    // hash table of term ids, kNone = free
  std::vector<Posting> postings_;  // in text order
  std::vector<uint32_t> term_of_;  // [postings]
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
