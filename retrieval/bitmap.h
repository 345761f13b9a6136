#ifndef CAIRN_RETRIEVAL_BITMAP_H_
#define CAIRN_RETRIEVAL_BITMAP_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn::retrieval {

// A fixed number of bits, all clear at first. Bit i is bit i % 64 of word i / 64.
class Bitmap {
 public:
  explicit Bitmap(size_t size = 0) : size_(size), words_((size + 63) / 64) {}
  size_t size() const { return size_; }
  bool Get(size_t i) const { return (words_[i / 64] >> (i % 64)) & 1; }
  void Set(size_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  size_t Count() const {
    size_t count = 0;
    for (const uint64_t word : words_) count += static_cast<size_t>(std::popcount(word));
    return count;
  }

 private:
  size_t size_;
  std::vector<uint64_t> words_;
};

}  // namespace cairn::retrieval

#endif  // CAIRN_RETRIEVAL_BITMAP_H_
