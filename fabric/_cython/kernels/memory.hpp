// Where a kernel's output lives, and who gives it back.
//
// One job: `Holder` owns the buffers, structs and adopted dictionaries of one exported array tree.
// Every node of the tree counts as a reference, so a consumer may keep any child and release the
// rest, from any thread and without the GIL; the last release hands the buffers back.
#pragma once
#include <atomic>
#include <deque>
#include <new>

#include "arrow_c.hpp"

namespace fabric {

// Where buffers come from: `shuffle/pool.hpp`, or malloc. Buffers are 64-byte aligned.
class Allocator {
 public:
  virtual void* allocate(int64_t n_bytes) = 0;  // throws std::bad_alloc
  virtual void give_back(void* buffer, int64_t n_bytes) noexcept = 0;
  virtual void retain() noexcept {}  // one per live Holder: the allocator outlives its buffers
  virtual void drop() noexcept {}

 protected:
  ~Allocator() = default;
};

class SystemAllocator final : public Allocator {
 public:
  void* allocate(int64_t n_bytes) override {
    void* buffer = std::aligned_alloc(64, static_cast<size_t>((n_bytes + 63) & ~int64_t{63}));
    if (buffer == nullptr) throw std::bad_alloc();
    return buffer;
  }
  void give_back(void* buffer, int64_t) noexcept override { std::free(buffer); }
};

inline SystemAllocator& system_allocator() {
  static SystemAllocator allocator;
  return allocator;
}

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

class Holder {
 public:
  explicit Holder(Allocator& allocator) : allocator_(allocator) { allocator.retain(); }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // At least 64 writable bytes more than asked for, so that copies may run over the end.
  template <class T>
  T* buffer(int64_t n) {
    const int64_t n_bytes = n * static_cast<int64_t>(sizeof(T)) + 64;
    buffers_.push_back({nullptr, n_bytes});
    buffers_.back().data = allocator_.allocate(n_bytes);
    return static_cast<T*>(buffers_.back().data);
  }

  // Make `node` an array of this tree with room for its buffers and children.
  void init(ArrowArray& node, int64_t length, int64_t n_buffers, int64_t n_children) {
    pointers_.emplace_back(static_cast<size_t>(n_buffers), nullptr);
    const void** buffers = pointers_.back().data();
    children_.emplace_back(static_cast<size_t>(n_children), nullptr);
    ArrowArray** children = children_.back().data();
    for (int64_t i = 0; i < n_children; ++i) {
      nodes_.push_back(ArrowArray{});
      children[i] = &nodes_.back();
    }
    references_.fetch_add(1, std::memory_order_relaxed);
    node = ArrowArray{length, 0, 0, n_buffers, n_children, buffers, children, nullptr,
                      &Holder::release, this};
  }

  // Move an input's dictionary into this tree; it lives as long as its new parent.
  ArrowArray* adopt(ArrowArray* dictionary) {
    nodes_.push_back(*dictionary);
    dictionary->release = nullptr;
    return &nodes_.back();
  }

  Allocator& allocator() const { return allocator_; }

  // The tree is whole: drop the builder's own reference, its nodes keep theirs.
  void done() noexcept { unreference(); }

  // Building failed: everything goes back, nothing of the tree may be used.
  void abandon() noexcept {
    for (ArrowArray& node : nodes_) {  // what was adopted is released, what was built is not
      if (node.release != nullptr && node.release != &Holder::release) node.release(&node);
    }
    delete this;
  }

 private:
  struct Buffer {
    void* data;
    int64_t n_bytes;
  };

  ~Holder() {
    for (const Buffer& buffer : buffers_) {
      if (buffer.data != nullptr) allocator_.give_back(buffer.data, buffer.n_bytes);
    }
    allocator_.drop();
  }

  void unreference() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  static void release(ArrowArray* node) {
    for (int64_t i = 0; i < node->n_children; ++i) {
      ArrowArray* child = node->children[i];
      if (child->release != nullptr) child->release(child);
    }
    ArrowArray* dictionary = node->dictionary;
    if (dictionary != nullptr && dictionary->release != nullptr) dictionary->release(dictionary);
    node->release = nullptr;
    static_cast<Holder*>(node->private_data)->unreference();
  }

  Allocator& allocator_;
  std::atomic<int64_t> references_{1};
  std::vector<Buffer> buffers_;
  std::deque<ArrowArray> nodes_;  // a deque: growing moves nothing
  std::deque<std::vector<const void*>> pointers_;
  std::deque<std::vector<ArrowArray*>> children_;
};

}  // namespace fabric
