// Where a kernel's output lives, and who gives it back.
//
// One job: `Holder` owns the buffers, structs and adopted dictionaries of one exported array tree.
// Every node of the tree counts as a reference, so a consumer may keep any child and release the
// rest, from any thread and without the GIL; the last release hands the buffers back.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "allocator.hpp"
#include "arrow_c.hpp"

namespace fabric {

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

}  // namespace fabric
