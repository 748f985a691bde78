// Recycled buffers: fresh pages cost more than the kernels that fill them.
//
// One job: an Allocator that keeps given-back buffers, by size class, up to a budget of bytes.
// Thread-safe; it lives until its last buffer came home. No buffer is zeroed.
#pragma once
#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "memory.hpp"

namespace fabric {

struct PoolStatistics {
  int64_t used_bytes = 0;  // handed out and not yet back
  int64_t kept_bytes = 0;  // waiting to be used again
  int64_t n_reused = 0;
  int64_t n_allocated = 0;
};

class Pool final : public Allocator {
 public:
  explicit Pool(int64_t kept_bytes_max) : kept_bytes_max_(kept_bytes_max) {}

  void* allocate(int64_t n_bytes) override {
    const SizeClass size = class_of(n_bytes);
    {
      std::lock_guard lock(mutex_);
      Shelf& shelf = shelves_[size.index];
      shelf.last_use = ++clock_;
      if (!shelf.buffers.empty()) {
        void* buffer = shelf.buffers.back();
        shelf.buffers.pop_back();
        statistics_.kept_bytes -= size.n_bytes;
        statistics_.used_bytes += size.n_bytes;
        ++statistics_.n_reused;
        return buffer;
      }
    }
    void* buffer = fresh(size.n_bytes);
    std::lock_guard lock(mutex_);
    statistics_.used_bytes += size.n_bytes;
    ++statistics_.n_allocated;
    return buffer;
  }

  void give_back(void* buffer, int64_t n_bytes) noexcept override {
    const SizeClass size = class_of(n_bytes);
    std::lock_guard lock(mutex_);
    statistics_.used_bytes -= size.n_bytes;
    while (statistics_.kept_bytes + size.n_bytes > kept_bytes_max_ && free_oldest()) {}
    if (statistics_.kept_bytes + size.n_bytes > kept_bytes_max_ || !keep(buffer, size)) {
      std::free(buffer);
    }
  }

  void trim() noexcept {
    std::lock_guard lock(mutex_);
    while (free_oldest()) {}
  }

  PoolStatistics statistics() const {
    std::lock_guard lock(mutex_);
    return statistics_;
  }

  void retain() noexcept override { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept override {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  struct SizeClass {
    size_t index;
    int64_t n_bytes;
  };
  struct Shelf {
    std::vector<void*> buffers;
    int64_t n_bytes = 0;
    int64_t last_use = 0;
  };
  static constexpr int64_t HUGE_PAGE = 2 << 20;
  static constexpr size_t N_CLASSES = 4 * 64;

  ~Pool() { trim(); }

  // Four classes to a power of two: at most a quarter of a buffer is waste.
  static SizeClass class_of(int64_t n_bytes) {
    const uint64_t wanted = static_cast<uint64_t>(std::max<int64_t>(n_bytes, 256));
    const int power = 63 - __builtin_clzll(wanted);
    const uint64_t quarter = UINT64_C(1) << (power - 2);
    const uint64_t quarters = (wanted + quarter - 1) / quarter;  // 4 to 8
    return {static_cast<size_t>(power) * 4 + static_cast<size_t>(quarters - 4),
            static_cast<int64_t>(quarters * quarter)};
  }

  static void* fresh(int64_t n_bytes) {
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

  bool keep(void* buffer, SizeClass size) noexcept {
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

  bool free_oldest() noexcept {  // one buffer of the size that was not asked for the longest
    Shelf* oldest = nullptr;
    for (Shelf& shelf : shelves_) {
      if (shelf.buffers.empty()) continue;
      if (oldest == nullptr || shelf.last_use < oldest->last_use) oldest = &shelf;
    }
    if (oldest == nullptr) return false;
    std::free(oldest->buffers.back());
    oldest->buffers.pop_back();
    statistics_.kept_bytes -= oldest->n_bytes;
    return true;
  }

  const int64_t kept_bytes_max_;
  mutable std::mutex mutex_;
  std::array<Shelf, N_CLASSES> shelves_;
  PoolStatistics statistics_;
  int64_t clock_ = 0;
  std::atomic<int64_t> references_{1};
};

}  // namespace fabric
