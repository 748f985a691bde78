// The memory of kernels: malloc's buffers, the trees of arrays made of buffers, and pages.
//
// One job: the bodies of allocator.hpp, memory.hpp and growing.hpp.
#include "memory.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "growing.hpp"
#include "pool.hpp"

namespace fabric {

namespace {

class SystemAllocator final : public Allocator {
 public:
  void* allocate(int64_t n_bytes) override {
    void* buffer = std::aligned_alloc(64, static_cast<size_t>((n_bytes + 63) & ~int64_t{63}));
    if (buffer == nullptr) throw std::bad_alloc();
    return buffer;
  }
  void give_back(void* buffer, int64_t) noexcept override { std::free(buffer); }
};

}  // namespace

Allocator& system_allocator() {
  static SystemAllocator allocator;
  return allocator;
}

// --- arrays -------------------------------------------------------------------------------------

void* Holder::allocate(int64_t n_bytes) {
  buffers_.push_back({nullptr, n_bytes});
  buffers_.back().data = allocator_.allocate(n_bytes);
  return buffers_.back().data;
}

void Holder::init(ArrowArray& node, int64_t length, int64_t n_buffers, int64_t n_children) {
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

ArrowArray* Holder::adopt(ArrowArray* dictionary) {
  nodes_.push_back(*dictionary);
  dictionary->release = nullptr;
  return &nodes_.back();
}

void Holder::abandon() noexcept {
  for (ArrowArray& node : nodes_) {  // what was adopted is released, what was built is not
    if (node.release != nullptr && node.release != &Holder::release) node.release(&node);
  }
  delete this;
}

Holder::~Holder() {
  for (const Buffer& buffer : buffers_) {
    if (buffer.data != nullptr) allocator_.give_back(buffer.data, buffer.n_bytes);
  }
  allocator_.drop();
}

void Holder::unreference() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void Holder::release(ArrowArray* node) {
  for (int64_t i = 0; i < node->n_children; ++i) {
    ArrowArray* child = node->children[i];
    if (child->release != nullptr) child->release(child);
  }
  ArrowArray* dictionary = node->dictionary;
  if (dictionary != nullptr && dictionary->release != nullptr) dictionary->release(dictionary);
  node->release = nullptr;
  static_cast<Holder*>(node->private_data)->unreference();
}

// --- pages --------------------------------------------------------------------------------------

namespace {

// Fresh pages, zeroed.
class Pages final : public Allocator {
 public:
#if defined(__linux__)
  void* allocate(int64_t n_bytes) override {
    void* pages = mmap(nullptr, static_cast<size_t>(n_bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    if (n_bytes >= HUGE_PAGE_BYTES) madvise(pages, static_cast<size_t>(n_bytes), MADV_HUGEPAGE);
    return pages;
  }
  void give_back(void* pages, int64_t n_bytes) noexcept override {
    munmap(pages, static_cast<size_t>(n_bytes));
  }
#else
  void* allocate(int64_t n_bytes) override {
    void* pages = system_allocator().allocate(n_bytes);
    return std::memset(pages, 0, static_cast<size_t>(n_bytes));
  }
  void give_back(void* pages, int64_t n_bytes) noexcept override {
    system_allocator().give_back(pages, n_bytes);
  }
#endif
};

// Up to so many bytes lie on pages that others gave back: tables come and go as groups are handed
// down to files, and fresh pages take longer than filling them.
constexpr int64_t POOLED_BYTES_MAX = 4 << 20, KEPT_BYTES_MAX = 16 << 20;

Pages& fresh_pages() {
  static Pages pages;
  return pages;
}

Pool& pooled_pages() {
  static auto* pool = new Pool(KEPT_BYTES_MAX, fresh_pages());  // tables may outlive the others
  return *pool;
}

}  // namespace

void* map_pages(int64_t n_bytes) {
  if (n_bytes > POOLED_BYTES_MAX) return fresh_pages().allocate(n_bytes);
  bool reused;
  void* pages = pooled_pages().allocate(n_bytes, reused);
  return reused ? std::memset(pages, 0, static_cast<size_t>(n_bytes)) : pages;
}

void* remap_pages(void* pages, int64_t before, int64_t n_bytes) {
#if defined(__linux__)
  if (before > POOLED_BYTES_MAX) {
    void* moved = mremap(pages, static_cast<size_t>(before), static_cast<size_t>(n_bytes),
                         MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) throw std::bad_alloc();
    madvise(moved, static_cast<size_t>(n_bytes), MADV_HUGEPAGE);
    return moved;
  }
#endif
  void* moved = map_pages(n_bytes);
  std::memcpy(moved, pages, static_cast<size_t>(before));
  unmap_pages(pages, before);
  return moved;
}

void unmap_pages(void* pages, int64_t n_bytes) noexcept {
  if (n_bytes > POOLED_BYTES_MAX) fresh_pages().give_back(pages, n_bytes);
  else pooled_pages().give_back(pages, n_bytes);
}

}  // namespace fabric
