// An open hash table that grows a segment at a time: from a tag (64-bit hash) to a number.
//
// One job: find, put and take away slots. What tags stand for is the caller's. Extendible hashing
// (Fagin et al., 1979): a directory by some bits of the tag names segments of 1,024 buckets; a
// bucket is one cache line of four slots, and runs over into the next one. A segment that is three
// quarters full is split in two, which is all that any one insertion costs (about 20 us); nothing
// is ever looked for in two places, and the old table is not held beside the new one.
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "cpu.hpp"
#include "growing.hpp"

namespace fabric {

constexpr int64_t SLOTS_A_BUCKET = 4;
constexpr uint32_t BUCKETS_FIRST = 4;     // a segment begins with so many
constexpr uint32_t BUCKETS_SPLIT = 1024;  // and is split from here on
constexpr int DIRECTORY_SHIFT = 20;       // tag bits below choose the bucket; the top 15 are shared
constexpr int DIRECTORY_BITS_MAX = 29;    // by all rows of a task
constexpr int64_t SLOTS_AHEAD = 64;       // how many rows ahead buckets are fetched
constexpr int64_t LOOKED_UP_MAX = 1024;   // how many tags are looked up together

struct alignas(64) Bucket {  // slots are used from the front; a value is 0 where there is none
  uint64_t tags[SLOTS_A_BUCKET];
  uint64_t values[SLOTS_A_BUCKET];

  bool full() const { return values[SLOTS_A_BUCKET - 1] != 0; }
  int64_t count() const {
    int64_t n = 0;
    while (n < SLOTS_A_BUCKET && values[n] != 0) ++n;
    return n;
  }
};
static_assert(sizeof(Bucket) == 64);

// Zeroed blocks of buckets, all given back together; those of full segments lie in huge pages.
class BucketArena {
 public:
  BucketArena() = default;
  BucketArena(const BucketArena&) = delete;
  BucketArena& operator=(const BucketArena&) = delete;
  ~BucketArena() {
    for (const Chunk& chunk : chunks_) unmap_pages(chunk.pages, chunk.n_bytes);
  }

  Bucket* take(int64_t n) {
    const int64_t n_bytes = n * int64_t{sizeof(Bucket)};
    if (n_bytes > left_) add_chunk(n_bytes);
    Bucket* taken = reinterpret_cast<Bucket*>(next_);
    next_ += n_bytes;
    left_ -= n_bytes;
    return taken;
  }

  int64_t n_bytes() const { return n_bytes_; }

 private:
  struct Chunk {
    void* pages;
    int64_t n_bytes;
  };

  void add_chunk(int64_t wanted) {  // each as large as all before it, from 4 KiB to 4 MiB
    int64_t size = std::clamp<int64_t>(n_bytes_, 4096, 2 * HUGE_PAGE_BYTES);
    size = (std::max(size, wanted) + 4095) & ~int64_t{4095};
    chunks_.reserve(chunks_.size() + 1);
    next_ = static_cast<char*>(map_pages(size));
    chunks_.push_back({next_, size});
    left_ = size;
    n_bytes_ += size;
  }

  std::vector<Chunk> chunks_;
  char* next_ = nullptr;
  int64_t left_ = 0, n_bytes_ = 0;
};

class Slots {
 public:
  struct Place {
    Bucket* bucket;
    int64_t slot;  // -1: not there
    uint64_t& value() const { return bucket->values[slot]; }
  };

  Slots() {
    segments_.push_back(std::make_unique<Segment>(Segment{arena_.take(BUCKETS_FIRST),
                                                          BUCKETS_FIRST - 1, 0, 0}));
    directory_.push_back({segments_[0]->buckets, segments_[0]->mask, 0});
  }

  // Where a tag is looked for first; holds until a slot is put.
  FABRIC_INLINE Bucket* home(uint64_t tag) const {
    const Entry& entry = directory_[(tag >> DIRECTORY_SHIFT) & directory_mask_];
    return entry.buckets + (tag & entry.mask);
  }
  void fetch(uint64_t tag) const { __builtin_prefetch(home(tag)); }

  // For each of at most LOOKED_UP_MAX tags the value of the first slot that has it, or 0.
  void look_up(const uint64_t* tags, int64_t n, int cpu, uint64_t* values) const {
    std::array<uint16_t, LOOKED_UP_MAX + 1> beyond;
    int64_t n_beyond = 0;
    by_cpu<InHomes>(cpu, directory_.data(), directory_mask_, tags, n, values, beyond.data(),
                    &n_beyond);
    for (int64_t i = 0; i < n_beyond; ++i) {
      const uint64_t tag = tags[beyond[static_cast<size_t>(i)]];
      __builtin_prefetch(next(home(tag), tag));
    }
    for (int64_t i = 0; i < n_beyond; ++i) {
      const uint16_t row = beyond[static_cast<size_t>(i)];
      values[row] = value_beyond(home(tags[row]), tags[row]);
    }
  }

  // The slot of a tag for which `same(value)` holds.
  template <class Same>
  FABRIC_INLINE Place find(Bucket* bucket, uint64_t tag, Same same) const {
    while (true) {
      for (int64_t i = 0; i < SLOTS_A_BUCKET; ++i) {
        if (bucket->values[i] == 0) return {bucket, -1};
        if (bucket->tags[i] == tag && same(bucket->values[i])) return {bucket, i};
      }
      bucket = next(bucket, tag);
    }
  }

  // A new slot; the caller knows that there is none for what it stands for. A value is not 0.
  Place put(uint64_t tag, uint64_t value) {
    Segment* segment = segment_of(tag);
    while (__builtin_expect(segment->count >= limit(*segment), 0)) {
      make_room(*segment, tag);
      segment = segment_of(tag);
    }
    ++segment->count;
    ++n_slots_;
    return place(*segment, tag, value);
  }

  // Take a slot away and close the gap, so that what ran over is found without it.
  void erase(Place at) {
    Segment& segment = *segment_of(at.bucket->tags[at.slot]);
    --segment.count;
    --n_slots_;
    Bucket* hole = at.bucket;
    bool ran_over = drop(*hole, at.slot);
    for (Bucket* from = hole; ran_over;) {
      from = segment.buckets + ((from - segment.buckets + 1) & segment.mask);
      const bool was_full = from->full();
      const int64_t i = moves_to(segment, *from, hole);
      if (i >= 0) {
        append(*hole, from->tags[i], from->values[i]);
        drop(*from, i);
        hole = from;
      }
      ran_over = was_full;
    }
  }

  int64_t size() const { return n_slots_; }
  int64_t n_bytes() const {
    return arena_.n_bytes() + static_cast<int64_t>(directory_.size() * sizeof(Entry) +
                                                   segments_.size() * (sizeof(Segment) + 8));
  }

 private:
  struct Segment {
    Bucket* buckets;
    uint32_t mask;
    uint32_t count;
    int depth;  // how many directory bits its tags share
  };
  struct Entry {  // a copy of what the segment says, so that finding touches the directory alone
    Bucket* buckets;
    uint32_t mask;
    uint32_t segment;
  };

  // No branches but the loops': which slot it is, and whether it is there, can't be guessed, and a
  // wrong guess costs more than the cache line does.
  static FABRIC_INLINE uint64_t value_in(const Bucket& bucket, uint64_t tag) {
    uint64_t found = 0;
    for (int64_t i = SLOTS_A_BUCKET - 1; i >= 0; --i) {
      const uint64_t same = -static_cast<uint64_t>(bucket.tags[i] == tag);
      found = (bucket.values[i] & same) | (found & ~same);
    }
    return found;
  }

  // `values` of `n` tags; `beyond` are the rows whose homes are full and do not have them.
  struct InHomes {
    static FABRIC_INLINE void run(const Entry* directory, uint64_t mask,
                                  const uint64_t* __restrict tags, int64_t n,
                                  uint64_t* __restrict values, uint16_t* __restrict beyond,
                                  int64_t* n_beyond) {
      const auto home = [=](uint64_t tag) FABRIC_LAMBDA {
        const Entry& entry = directory[(tag >> DIRECTORY_SHIFT) & mask];
        return entry.buckets + (tag & entry.mask);
      };
      for (int64_t i = 0; i < std::min(n, SLOTS_AHEAD); ++i) __builtin_prefetch(home(tags[i]));
      int64_t m = 0;
      for (int64_t i = 0; i < n; ++i) {
        __builtin_prefetch(home(tags[std::min(i + SLOTS_AHEAD, n - 1)]));
        const Bucket& bucket = *home(tags[i]);
        const uint64_t found = value_in(bucket, tags[i]);
        values[i] = found;
        beyond[m] = static_cast<uint16_t>(i);
        m += static_cast<int64_t>((found == 0) & bucket.full());
      }
      *n_beyond = m;
    }
  };

  __attribute__((noinline)) uint64_t value_beyond(const Bucket* bucket, uint64_t tag) const {
    uint64_t found = 0;
    while (found == 0 && bucket->full()) {
      bucket = next(const_cast<Bucket*>(bucket), tag);
      found = value_in(*bucket, tag);
    }
    return found;
  }

  const Entry& entry_of(uint64_t tag) const {
    return directory_[(tag >> DIRECTORY_SHIFT) & directory_mask_];
  }
  Segment* segment_of(uint64_t tag) const { return segments_[entry_of(tag).segment].get(); }

  Bucket* next(Bucket* bucket, uint64_t tag) const {
    const Entry& entry = entry_of(tag);
    return entry.buckets + ((bucket - entry.buckets + 1) & entry.mask);
  }

  static uint32_t limit(const Segment& segment) { return (segment.mask + 1) * 3; }

  static void set(Bucket& bucket, int64_t i, uint64_t tag, uint64_t value) {
    bucket.tags[i] = tag;
    bucket.values[i] = value;
  }

  static void append(Bucket& bucket, uint64_t tag, uint64_t value) {
    set(bucket, bucket.count(), tag, value);
  }

  static Place place(Segment& segment, uint64_t tag, uint64_t value) {
    Bucket* bucket = segment.buckets + (tag & segment.mask);
    while (bucket->full()) {
      bucket = segment.buckets + ((bucket - segment.buckets + 1) & segment.mask);
    }
    const int64_t i = bucket->count();
    set(*bucket, i, tag, value);
    return {bucket, i};
  }

  // Empty one slot of a bucket; returns whether the bucket was full.
  static bool drop(Bucket& bucket, int64_t i) {
    const int64_t last = bucket.count() - 1;
    set(bucket, i, bucket.tags[last], bucket.values[last]);
    set(bucket, last, 0, 0);
    return last == SLOTS_A_BUCKET - 1;
  }

  // A slot of `from` that was looked for at `hole` on its way, or -1.
  static int64_t moves_to(const Segment& segment, const Bucket& from, const Bucket* hole) {
    const uint64_t at = static_cast<uint64_t>(&from - segment.buckets);
    const uint64_t way = (at - static_cast<uint64_t>(hole - segment.buckets)) & segment.mask;
    for (int64_t i = 0; i < from.count(); ++i) {
      if (((at - from.tags[i]) & segment.mask) >= way) return i;
    }
    return -1;
  }

  // All slots of a segment, taken out; `buckets` is empty afterwards.
  void lift(Segment& segment) {
    lifted_.assign(segment.buckets, segment.buckets + segment.mask + 1);
  }

  __attribute__((noinline)) void make_room(Segment& segment, uint64_t tag) {
    const bool small = segment.mask + 1 < BUCKETS_SPLIT;
    if (small || !may_split(segment)) enlarge(segment, tag);
    else split(segment, tag);
  }

  // Tags that agree in all bits of a large directory are no accident: then the segment grows.
  bool may_split(const Segment& segment) const {
    const size_t wanted = size_t{1} << (segment.depth + 1);
    return segment.depth < DIRECTORY_BITS_MAX && wanted <= 64 + 16 * segments_.size();
  }

  void enlarge(Segment& segment, uint64_t tag) {
    const uint32_t n_buckets = (segment.mask + 1) * 2;
    Bucket* made = arena_.take(n_buckets);
    lift(segment);
    segment.buckets = made;  // what it leaves is as much as all small sizes together
    segment.mask = n_buckets - 1;
    for (const Bucket& bucket : lifted_) {
      for (int64_t i = 0; i < bucket.count(); ++i) {
        place(segment, bucket.tags[i], bucket.values[i]);
      }
    }
    const uint32_t index = entry_of(tag).segment;
    for (Entry& entry : directory_) {
      if (entry.segment == index) entry = {made, segment.mask, index};
    }
  }

  void split(Segment& segment, uint64_t tag) {
    segments_.reserve(segments_.size() + 1);
    if (size_t{1} << segment.depth == directory_.size()) double_directory();
    const uint32_t index = static_cast<uint32_t>(segments_.size());
    const uint64_t bit = UINT64_C(1) << (DIRECTORY_SHIFT + segment.depth);
    const size_t step = size_t{1} << segment.depth;
    lift(segment);
    segments_.push_back(std::make_unique<Segment>(
        Segment{arena_.take(segment.mask + 1), segment.mask, 0, segment.depth + 1}));
    Segment& other = *segments_.back();
    ++segment.depth;
    std::memset(static_cast<void*>(segment.buckets), 0, lifted_.size() * sizeof(Bucket));
    for (const Bucket& bucket : lifted_) {
      for (int64_t i = 0; i < bucket.count(); ++i) {
        Segment& to = bucket.tags[i] & bit ? other : segment;
        place(to, bucket.tags[i], bucket.values[i]);
        other.count += &to == &other;
      }
    }
    segment.count -= other.count;
    for (size_t i = ((tag >> DIRECTORY_SHIFT) & (step - 1)) | step; i < directory_.size();
         i += 2 * step) {
      directory_[i] = {other.buckets, other.mask, index};
    }
  }

  void double_directory() {
    const size_t n = directory_.size();
    directory_.reserve(2 * n);
    directory_.insert(directory_.end(), directory_.begin(), directory_.begin() +
                                                                static_cast<int64_t>(n));
    directory_mask_ = 2 * n - 1;
  }

  BucketArena arena_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Entry> directory_;
  std::vector<Bucket> lifted_;
  uint64_t directory_mask_ = 0;
  int64_t n_slots_ = 0;
};

}  // namespace fabric
