// Recycled buffers: fresh pages cost more than the kernels that fill them.
//
// One job: an Allocator that keeps given-back buffers, by size class, up to a budget of bytes; the
// others come from another Allocator and go back to it. Thread-safe; it lives until its last buffer
// came home. What was used before is not zeroed.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "allocator.hpp"

namespace fabric {

struct PoolStatistics {
  int64_t used_bytes = 0;  // handed out and not yet back
  int64_t kept_bytes = 0;  // waiting to be used again
  int64_t n_reused = 0;
  int64_t n_allocated = 0;
};

Allocator& large_allocator();  // malloc's, in huge pages where a buffer fills some

class Pool final : public Allocator {
 public:
  explicit Pool(int64_t kept_bytes_max, Allocator& source = large_allocator());

  void* allocate(int64_t n_bytes) override;
  void* allocate(int64_t n_bytes, bool& reused);  // whether somebody wrote into it before
  void give_back(void* buffer, int64_t n_bytes) noexcept override;
  void trim() noexcept;
  PoolStatistics statistics() const;
  void retain() noexcept override;
  void drop() noexcept override;

 private:
  struct SizeClass;
  struct Shelf {
    std::vector<void*> buffers;
    int64_t n_bytes = 0;
    int64_t last_use = 0;
  };
  static constexpr size_t N_CLASSES = 4 * 64;

  ~Pool();

  static SizeClass class_of(int64_t n_bytes);
  bool keep(void* buffer, SizeClass size) noexcept;
  bool free_oldest() noexcept;  // one buffer of the size that was not asked for the longest

  const int64_t kept_bytes_max_;
  Allocator& source_;
  mutable std::mutex mutex_;
  std::array<Shelf, N_CLASSES> shelves_;
  PoolStatistics statistics_;
  int64_t clock_ = 0;
  std::atomic<int64_t> references_{1};
};

}  // namespace fabric
