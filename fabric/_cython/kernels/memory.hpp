// Where the buffers of kernels come from, who owns them, and who gives them back.
//
// One job: `Allocator`, which all kernels ask for memory; `Pool`, one that uses buffers again;
// `Scratch`, working memory of a scope; and `Holder`, the owner of an exported array tree.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "arrays.hpp"

namespace fabric {

// A `Pool`, or malloc. Buffers are 64-byte aligned.
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

// The owner of the buffers, structs and adopted dictionaries of one exported array tree. Every node
// of the tree counts as a reference, so a consumer may keep any child and release the rest, from
// any thread and without the GIL; the last release hands the buffers back.
class Holder {
 public:
  explicit Holder(Allocator& allocator) : allocator_(allocator) { allocator.retain(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // At least 64 writable bytes more than asked for, so that copies may run over the end.
  template <class T>
  T* buffer(int64_t n) {
    return static_cast<T*>(allocate(n * static_cast<int64_t>(sizeof(T)) + 64));
  }

  // Make `node` an array of this tree with room for its buffers and children.
  void init(ArrowArray& node, int64_t length, int64_t n_buffers, int64_t n_children);

  // Move an input's dictionary into this tree; it lives as long as its new parent.
  ArrowArray* adopt(ArrowArray* dictionary);

  Allocator& allocator() const { return allocator_; }

  // The tree is whole: drop the builder's own reference, its nodes keep theirs.
  void done() noexcept { unreference(); }

  // Building failed: everything goes back, nothing of the tree may be used.
  void abandon() noexcept;

 private:
  struct Buffer {
    void* data;
    int64_t n_bytes;
  };

  ~Holder();
  void* allocate(int64_t n_bytes);
  void unreference() noexcept;
  static void release(ArrowArray* node);

  Allocator& allocator_;
  std::atomic<int64_t> references_{1};
  std::vector<Buffer> buffers_;
  std::deque<ArrowArray> nodes_;  // a deque: growing moves nothing
  std::deque<std::vector<const void*>> pointers_;
  std::deque<std::vector<ArrowArray*>> children_;
};

// Have `build(holder)` make `out`; on failure `out` is left released and the error goes on.
template <class Build>
void build_array(Allocator& allocator, ArrowArray& out, Build build) {
  Holder* holder = new Holder(allocator);
  try {
    build(*holder);
  } catch (...) {
    out.release = nullptr;
    holder->abandon();
    throw;
  }
  holder->done();
}

struct PoolStatistics {
  int64_t used_bytes = 0;  // handed out and not yet back
  int64_t kept_bytes = 0;  // waiting to be used again
  int64_t n_reused = 0;
  int64_t n_allocated = 0;
};

Allocator& large_allocator();  // malloc's, in huge pages where a buffer fills some

// An Allocator that keeps given-back buffers, by size class, up to a budget of bytes: fresh pages
// cost more than the kernels that fill them. The others come from another Allocator and go back to
// it. Thread-safe; it lives until its last buffer came home. What was used before is not zeroed.
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
