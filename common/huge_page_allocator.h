// HugePageAllocator: an allocator for containers of megabytes that are walked with large strides.
// On 4 KiB pages each step would miss the TLB.
#ifndef CAIRN_COMMON_HUGE_PAGE_ALLOCATOR_H_
#define CAIRN_COMMON_HUGE_PAGE_ALLOCATOR_H_

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace cairn {

template <typename T>
struct HugePageAllocator {
  using value_type = T;

  HugePageAllocator() = default;
  template <typename U>
  HugePageAllocator(const HugePageAllocator<U>&) {}  // NOLINT: containers rebind implicitly

  T* allocate(size_t n) {
    constexpr size_t kHugePage = size_t{2} << 20;
    if (n > (SIZE_MAX - kHugePage) / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = n * sizeof(T);
    const size_t alignment = bytes >= kHugePage ? kHugePage : 64;
    void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (p == nullptr) throw std::bad_alloc();
    if (alignment == kHugePage) madvise(p, bytes, MADV_HUGEPAGE);  // a wish: nothing depends on it
    return static_cast<T*>(p);
  }
  void deallocate(T* p, size_t) { std::free(p); }

  friend bool operator==(const HugePageAllocator&, const HugePageAllocator&) { return true; }
};

template <typename T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace cairn

#endif  // CAIRN_COMMON_HUGE_PAGE_ALLOCATOR_H_
