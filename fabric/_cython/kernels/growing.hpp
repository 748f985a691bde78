// Arrays by id that grow without copying what they hold.
//
// One job: room for values 0 … n - 1, zero until written. Small arrays are the heap's; larger ones
// have pages of their own. Those of some MB move by their table (mremap), so that growing costs no
// pause and no second copy. Pages are huge where the system gives such: values are met at random.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "cpu.hpp"

namespace fabric {

constexpr int64_t OWN_PAGES_BYTES = 1 << 18;  // from here on an array has pages of its own
constexpr int64_t HUGE_PAGE_BYTES = 1 << 21;

// Zeroed pages, fresh ones or those of others; `remap_pages` moves what they hold. Both throw
// std::bad_alloc.
void* map_pages(int64_t n_bytes);
void* remap_pages(void* pages, int64_t before, int64_t n_bytes);
void unmap_pages(void* pages, int64_t n_bytes) noexcept;

template <class T>
class Growing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Growing() = default;
  Growing(Growing&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), n_bytes_(std::exchange(other.n_bytes_, 0)) {}
  Growing(const Growing&) = delete;
  Growing& operator=(const Growing&) = delete;
  ~Growing() {
    if (n_bytes_ >= OWN_PAGES_BYTES) unmap_pages(data_, n_bytes_);
    else std::free(data_);
  }

  // Room for values 0 … n - 1 at least; throws std::bad_alloc and then has changed nothing.
  void reserve(int64_t n) {
    if (__builtin_expect(n * int64_t{sizeof(T)} > n_bytes_, 0)) grow(n * int64_t{sizeof(T)});
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }
  int64_t size() const { return n_bytes_ / int64_t{sizeof(T)}; }
  int64_t n_bytes() const { return n_bytes_; }

 private:
  __attribute__((noinline)) void grow(int64_t wanted) {
    int64_t n_bytes = n_bytes_ < 256 ? 256 : n_bytes_;
    while (n_bytes < wanted) n_bytes *= 2;
    void* made;
    if (n_bytes_ >= OWN_PAGES_BYTES) {
      made = remap_pages(data_, n_bytes_, n_bytes);
    } else if (n_bytes >= OWN_PAGES_BYTES) {
      made = map_pages(n_bytes);
      if (n_bytes_ > 0) std::memcpy(made, data_, static_cast<size_t>(n_bytes_));
      std::free(data_);
    } else {
      made = std::realloc(data_, static_cast<size_t>(n_bytes));
      if (made == nullptr) throw std::bad_alloc();
      std::memset(static_cast<char*>(made) + n_bytes_, 0, static_cast<size_t>(n_bytes - n_bytes_));
    }
    data_ = static_cast<T*>(made);
    n_bytes_ = n_bytes;
  }

  T* data_ = nullptr;
  int64_t n_bytes_ = 0;
};

constexpr int64_t GROUPS_AHEAD = 24;  // so many rows ahead the state of a row's group is prefetched

struct MostId {
  static FABRIC_INLINE void run(const int32_t* ids, int64_t n, int32_t* most) {
    int32_t found = -1;
    for (int64_t i = 0; i < n; ++i) found = ids[i] > found ? ids[i] : found;
    *most = found;
  }
};

// The greatest of some ids, -1 when there is none.
inline int32_t most_id(const int32_t* ids, int64_t n, int cpu) {
  int32_t most = -1;
  by_cpu<MostId>(cpu, ids, n, &most);
  return most;
}

}  // namespace fabric
