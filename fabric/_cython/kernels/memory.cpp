// The memory of kernels: malloc's buffers, recycled ones, the trees of arrays made of buffers, and
// pages.
//
// One job: the bodies of memory.hpp and growing.hpp.
#include "memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

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

Allocator& system_allocator() {
  static SystemAllocator allocator;
  return allocator;
}

Allocator& large_allocator() {
  static LargeAllocator allocator;
  return allocator;
}

// --- buffers used again, on shelves, one for each size class -------------------------------------

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
