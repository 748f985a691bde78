// Recycled buffers on shelves, one for each size class.
#include "pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace fabric {
namespace {

constexpr int64_t HUGE_PAGE = 2 << 20;

class LargeAllocator final : public Allocator {
 public:
  void* allocate(int64_t n_bytes) override {
    const bool huge = n_bytes >= 2 * HUGE_PAGE;
    const int64_t alignment = huge ? HUGE_PAGE : 64;
    const int64_t rounded = (n_bytes + alignment - 1) / alignment * alignment;
    void* buffer = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(rounded));
    if (buffer == nullptr) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    if (huge) madvise(buffer, static_cast<size_t>(rounded), MADV_HUGEPAGE);
#endif
    return buffer;
  }
  void give_back(void* buffer, int64_t) noexcept override { std::free(buffer); }
};

}  // namespace

Allocator& large_allocator() {
  static LargeAllocator allocator;
  return allocator;
}

struct Pool::SizeClass {
  size_t index;
  int64_t n_bytes;
};

// Four classes to a power of two: at most a quarter of a buffer is waste.
Pool::SizeClass Pool::class_of(int64_t n_bytes) {
  const uint64_t wanted = static_cast<uint64_t>(std::max<int64_t>(n_bytes, 256));
  const int power = 63 - __builtin_clzll(wanted);
  const uint64_t quarter = UINT64_C(1) << (power - 2);
  const uint64_t quarters = (wanted + quarter - 1) / quarter;  // 4 to 8
  return {static_cast<size_t>(power) * 4 + static_cast<size_t>(quarters - 4),
          static_cast<int64_t>(quarters * quarter)};
}

Pool::Pool(int64_t kept_bytes_max, Allocator& source)
    : kept_bytes_max_(kept_bytes_max), source_(source) {}

Pool::~Pool() { trim(); }

void* Pool::allocate(int64_t n_bytes) {
  bool reused;
  return allocate(n_bytes, reused);
}

void* Pool::allocate(int64_t n_bytes, bool& reused) {
  const SizeClass size = class_of(n_bytes);
  {
    std::lock_guard lock(mutex_);
    Shelf& shelf = shelves_[size.index];
    shelf.last_use = ++clock_;
    reused = !shelf.buffers.empty();
    if (reused) {
      void* buffer = shelf.buffers.back();
      shelf.buffers.pop_back();
      statistics_.kept_bytes -= size.n_bytes;
      statistics_.used_bytes += size.n_bytes;
      ++statistics_.n_reused;
      return buffer;
    }
  }
  void* buffer = source_.allocate(size.n_bytes);
  std::lock_guard lock(mutex_);
  statistics_.used_bytes += size.n_bytes;
  ++statistics_.n_allocated;
  return buffer;
}

void Pool::give_back(void* buffer, int64_t n_bytes) noexcept {
  const SizeClass size = class_of(n_bytes);
  std::lock_guard lock(mutex_);
  statistics_.used_bytes -= size.n_bytes;
  while (statistics_.kept_bytes + size.n_bytes > kept_bytes_max_ && free_oldest()) {}
  if (statistics_.kept_bytes + size.n_bytes > kept_bytes_max_ || !keep(buffer, size)) {
    source_.give_back(buffer, size.n_bytes);
  }
}

void Pool::trim() noexcept {
  std::lock_guard lock(mutex_);
  while (free_oldest()) {}
}

PoolStatistics Pool::statistics() const {
  std::lock_guard lock(mutex_);
  return statistics_;
}

void Pool::retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }

void Pool::drop() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

bool Pool::keep(void* buffer, SizeClass size) noexcept {
  Shelf& shelf = shelves_[size.index];
  try {
    shelf.buffers.push_back(buffer);
  } catch (const std::bad_alloc&) {
    return false;
  }
  shelf.n_bytes = size.n_bytes;
  shelf.last_use = ++clock_;
  statistics_.kept_bytes += size.n_bytes;
  return true;
}

bool Pool::free_oldest() noexcept {
  Shelf* oldest = nullptr;
  for (Shelf& shelf : shelves_) {
    if (shelf.buffers.empty()) continue;
    if (oldest == nullptr || shelf.last_use < oldest->last_use) oldest = &shelf;
  }
  if (oldest == nullptr) return false;
  source_.give_back(oldest->buffers.back(), oldest->n_bytes);
  oldest->buffers.pop_back();
  statistics_.kept_bytes -= oldest->n_bytes;
  return true;
}

}  // namespace fabric
