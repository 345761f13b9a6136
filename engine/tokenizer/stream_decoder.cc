#include "engine/tokenizer/stream_decoder.h"

#include <utility>

#include "common/utf8.h"

namespace cairn::engine {

std::string StreamDecoder::Feed(TokenId id) {
  pending_ += tokenizer_.TokenBytes(id);
  const size_t held = IncompleteUtf8Suffix(pending_);
  std::string text = SanitizeUtf8(std::string_view(pending_).substr(0, pending_.size() - held));
  pending_.erase(0, pending_.size() - held);
  return text;
}

std::string StreamDecoder::Flush() { return SanitizeUtf8(std::exchange(pending_, std::string())); }

}  // namespace cairn::engine
