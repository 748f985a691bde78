// Where the buffers of kernels come from.
//
// One job: the interface that all of them ask for memory, and `Scratch`, working memory that goes
// back at the end of a scope. What owns the buffers of an array is memory.hpp's.
#pragma once
#include <cstdint>

namespace fabric {

// `pool.hpp`'s, or malloc. Buffers are 64-byte aligned.
class Allocator {
 public:
  virtual void* allocate(int64_t n_bytes) = 0;  // throws std::bad_alloc
  virtual void give_back(void* buffer, int64_t n_bytes) noexcept = 0;
  virtual void retain() noexcept {}  // one per live Holder: the allocator outlives its buffers
  virtual void drop() noexcept {}

 protected:
  ~Allocator() = default;
};

Allocator& system_allocator();  // malloc's

// Working memory for the length of a scope.
template <class T>
class Scratch {
 public:
  Scratch(Allocator& allocator, int64_t n)
      : allocator_(allocator), n_bytes_(n * static_cast<int64_t>(sizeof(T)) + 64),
        data_(static_cast<T*>(allocator.allocate(n_bytes_))) {}
  ~Scratch() { allocator_.give_back(data_, n_bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }

 private:
  Allocator& allocator_;
  int64_t n_bytes_;
  T* data_;
};

}  // namespace fabric
