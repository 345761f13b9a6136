// What the lexical index knows of one document: its terms and how often each chunk holds them.
// Stored with the document, so that opening an index does not analyse text again.
#ifndef CAIRN_RETRIEVAL_LEXICAL_DOCUMENT_TERMS_H_
#define CAIRN_RETRIEVAL_LEXICAL_DOCUMENT_TERMS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "retrieval/text/analyzer.h"

namespace cairn::retrieval {

inline constexpr uint32_t kMaxTermFrequency = 65535;  // counts saturate there

struct DocumentTerms {
  struct Posting {
    uint32_t chunk;  // ordinal in the document
    uint16_t tf;
  };
  std::vector<uint32_t> lengths;   // [chunks] terms in the chunk, stop words left out
  std::vector<std::string> terms;  // ascending, unique
  std::vector<uint32_t> begins;    // [terms + 1] term i has postings [begins[i], begins[i + 1])
  std::vector<Posting> postings;   // by term, then by chunk ascending
};

// `texts[i]` holds the passages of chunk i that are indexed together (headings, body).
DocumentTerms AnalyzeDocument(const Analyzer& analyzer,
                              const std::vector<std::vector<std::string_view>>& texts);

std::string EncodeDocumentTerms(const DocumentTerms& terms);
// False when the bytes are not what EncodeDocumentTerms writes.
bool DecodeDocumentTerms(std::string_view bytes, DocumentTerms* out);

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_LEXICAL_DOCUMENT_TERMS_H_
