// The memory of kernels: malloc's buffers, the trees of arrays made of buffers, and pages.
//
// One job: the bodies of allocator.hpp, memory.hpp and growing.hpp; `SparePages` among them.
#include "memory.hpp"

#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "growing.hpp"

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

#if defined(__linux__)
namespace {

// Pages that were given back: tables that come and go, as groups are handed down to files, would
// have the system zero and map the same pages again, which takes longer than filling them does.
class SparePages {
 public:
  // Pages of just this size, not zeroed, or null.
  void* take(int64_t n_bytes) noexcept {
    std::vector<void*>* own = of(n_bytes);
    if (own == nullptr) return nullptr;
    const std::lock_guard lock(mutex_);
    if (own->empty()) return nullptr;
    void* pages = own->back();
    own->pop_back();
    n_bytes_ -= n_bytes;
    return pages;
  }

  // Whether they are kept.
  bool keep(void* pages, int64_t n_bytes) noexcept {
    std::vector<void*>* own = of(n_bytes);
    if (own == nullptr) return false;
    const std::lock_guard lock(mutex_);
    if (n_bytes_ + n_bytes > MOST_BYTES) return false;
    try {
      own->push_back(pages);
    } catch (const std::bad_alloc&) {
      return false;
    }
    n_bytes_ += n_bytes;
    return true;
  }

 private:
  static constexpr int64_t MOST_BYTES = 16 << 20;
  static constexpr int LEAST = std::bit_width(uint64_t{OWN_PAGES_BYTES}), N_SIZES = 5;

  std::vector<void*>* of(int64_t n_bytes) noexcept {
    const auto size = static_cast<uint64_t>(n_bytes);
    const int place = std::bit_width(size) - LEAST;
    return std::has_single_bit(size) && place >= 0 && place < N_SIZES ? &pages_[place] : nullptr;
  }

  std::mutex mutex_;
  std::array<std::vector<void*>, N_SIZES> pages_;
  int64_t n_bytes_ = 0;
};

SparePages& spare() {
  static auto* pages = new SparePages;  // tables may outlive what is destroyed at the end
  return *pages;
}

}  // namespace

void* map_pages(int64_t n_bytes) {
  if (void* kept = spare().take(n_bytes)) {
    return std::memset(kept, 0, static_cast<size_t>(n_bytes));
  }
  void* pages = mmap(nullptr, static_cast<size_t>(n_bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  if (n_bytes >= HUGE_PAGE_BYTES) madvise(pages, static_cast<size_t>(n_bytes), MADV_HUGEPAGE);
  return pages;
}

void* remap_pages(void* pages, int64_t before, int64_t n_bytes) {
  if (void* kept = spare().take(n_bytes)) {
    std::memcpy(kept, pages, static_cast<size_t>(before));
    std::memset(static_cast<char*>(kept) + before, 0, static_cast<size_t>(n_bytes - before));
    unmap_pages(pages, before);
    return kept;
  }
  void* moved = mremap(pages, static_cast<size_t>(before), static_cast<size_t>(n_bytes),
                       MREMAP_MAYMOVE);
  if (moved == MAP_FAILED) throw std::bad_alloc();
  if (n_bytes >= HUGE_PAGE_BYTES) madvise(moved, static_cast<size_t>(n_bytes), MADV_HUGEPAGE);
  return moved;
}

void unmap_pages(void* pages, int64_t n_bytes) noexcept {
  if (!spare().keep(pages, n_bytes)) munmap(pages, static_cast<size_t>(n_bytes));
}
#else
void* map_pages(int64_t n_bytes) {
  void* pages = std::aligned_alloc(4096, static_cast<size_t>(n_bytes));
  if (pages == nullptr) throw std::bad_alloc();
  return std::memset(pages, 0, static_cast<size_t>(n_bytes));
}

void* remap_pages(void* pages, int64_t before, int64_t n_bytes) {
  void* moved = std::realloc(pages, static_cast<size_t>(n_bytes));
  if (moved == nullptr) throw std::bad_alloc();
  std::memset(static_cast<char*>(moved) + before, 0, static_cast<size_t>(n_bytes - before));
  return moved;
}

void unmap_pages(void* pages, int64_t) noexcept { std::free(pages); }
#endif

}  // namespace fabric
