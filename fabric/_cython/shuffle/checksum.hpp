// The canonical buffers of an array, fed to a CRC32C.
//
// One job: say which bytes of an array count, in which order, whatever its slicing, offsets,
// padding, absent or useless validity bitmaps, and split of views over buffers. Offsets trusted.
#pragma once
#include <algorithm>
#include <vector>

#include "arrow_c.hpp"
#include "crc32c.hpp"
#include "take.hpp"

namespace fabric {

class CanonicalChecksum {
 public:
  explicit CanonicalChecksum(int cpu) : crc_(cpu) {}

  // Rows [row, row + n) of an array, counted from its own offset. Nothing for no rows.
  void add(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    if (n == 0) return;
    row += array.offset;
    validity(type, array, row, n);
    switch (type.layout) {
      case Layout::null: return;
      case Layout::boolean: return bits(bytes_of(array, 1), row, n);
      case Layout::fixed:
        return crc_.add(bytes_of(array, 1) + row * type.width, n * type.width);
      case Layout::binary: return binary<int32_t>(array, row, n);
      case Layout::large_binary: return binary<int64_t>(array, row, n);
      case Layout::view: return views(type, array, row, n);
      case Layout::list: return lists<int32_t>(type, array, row, n);
      case Layout::large_list: return lists<int64_t>(type, array, row, n);
      case Layout::list_view: return list_views<int32_t>(type, array, row, n);
      case Layout::large_list_view: return list_views<int64_t>(type, array, row, n);
      case Layout::fixed_list:
        return add(type.children[0], *array.children[0], row * type.width, n * type.width);
      case Layout::structure: return children(type, array, row, n);
      case Layout::sparse_union:
        crc_.add(bytes_of(array, 0) + row, n);
        return children(type, array, row, n);
      case Layout::dense_union: return dense_union(type, array, row, n);
      case Layout::dictionary:
        crc_.add(bytes_of(array, 1) + row * type.width, n * type.width);
        return add(type.children[0], *array.dictionary, 0, array.dictionary->length);
      case Layout::run_end: return runs(type, array, row, n);
    }
  }
  uint32_t value() const { return crc_.value(); }

 private:
  void children(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    for (size_t i = 0; i < type.children.size(); ++i) {
      add(type.children[i], *array.children[i], row, n);
    }
  }

  void validity(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    const uint8_t* valid = validity_of(type, array);
    if (valid != nullptr && count_bits(valid, row, n) != n) bits(valid, row, n);
  }

  void bits(const uint8_t* from, int64_t first, int64_t n) {  // from bit 0 on, zeros after the end
    uint64_t block[64];
    for (int64_t done = 0; done < n;) {
      const int64_t count = std::min<int64_t>(n - done, 64 * 64);
      for (int64_t i = 0; i < count; i += 64) {
        block[i / 64] = load_bits(from, first + done + i, std::min<int64_t>(count - i, 64));
      }
      crc_.add(block, (count + 7) / 8);
      done += count;
    }
  }

  template <class Offset>
  void offsets(const Raw<Offset>* from, int64_t n) {  // n + 1 of them, rebased to 0
    Offset block[256];
    for (int64_t done = 0; done <= n;) {
      const int64_t count = std::min<int64_t>(n + 1 - done, 256);
      for (int64_t i = 0; i < count; ++i) block[i] = from[done + i] - from[0];
      crc_.add(block, count * static_cast<int64_t>(sizeof(Offset)));
      done += count;
    }
  }

  template <class Offset>
  void binary(const ArrowArray& array, int64_t row, int64_t n) {
    const Raw<Offset>* from = buffer_of<Offset>(array, 1) + row;
    offsets(from, n);
    crc_.add(bytes_of(array, 2) + from[0], from[n] - from[0]);
  }

  template <class Offset>
  void lists(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    const Raw<Offset>* from = buffer_of<Offset>(array, 1) + row;
    offsets(from, n);
    add(type.children[0], *array.children[0], from[0], from[n] - from[0]);
  }

  void views(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    const uint8_t* valid = validity_of(type, array);
    const uint8_t* first = bytes_of(array, 1) + row * 16;
    const auto size_of = [=](int64_t i) {
      return valid == nullptr || bit_at(valid, row + i) ? load<int32_t>(first + i * 16) : 0;
    };
    int32_t block[256];
    for (int64_t done = 0; done < n;) {
      const int64_t count = std::min<int64_t>(n - done, 256);
      for (int64_t i = 0; i < count; ++i) block[i] = size_of(done + i);
      crc_.add(block, count * 4);
      done += count;
    }
    const Raw<int64_t>* sizes = buffer_of<int64_t>(array, array.n_buffers - 1);
    for (int64_t i = 0; i < n; ++i) {
      const int32_t size = size_of(i);
      const uint8_t* view = first + i * 16;
      const int32_t source = load<int32_t>(view + 8);
      if (size <= 12) {
        stage(view + 4, view + 16, size);
      } else {
        const uint8_t* data = bytes_of(array, 2 + source);
        stage(data + load<int32_t>(view + 12), data + sizes[source], size);
      }
    }
    flush();
  }

  // Add short strings by the block: a CRC of a few bytes at a time is slow.
  void stage(const uint8_t* from, const uint8_t* end, int32_t size) {
    if (n_staged_ + size > STAGE_BYTES) flush();
    if (size > STAGE_BYTES) return crc_.add(from, size);
    copy_bytes(from, end, size, stage_ + n_staged_);
    n_staged_ += size;
  }
  void flush() {
    crc_.add(stage_, n_staged_);
    n_staged_ = 0;
  }

  template <class Offset>
  void list_views(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    const uint8_t* valid = validity_of(type, array);
    const Raw<Offset>* from = buffer_of<Offset>(array, 1) + row;
    const Raw<Offset>* sizes = buffer_of<Offset>(array, 2) + row;
    for (int64_t i = 0; i < n; ++i) {
      const bool there = valid == nullptr || bit_at(valid, row + i);
      const Offset size = there ? Offset{sizes[i]} : Offset{0};
      crc_.add(&size, sizeof size);
      add(type.children[0], *array.children[0], there ? int64_t{from[i]} : 0, size);
    }
  }

  // Codes, then for each child the offsets into it, rebased to the lowest, and the range they use.
  void dense_union(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    const uint8_t* codes = bytes_of(array, 0) + row;
    const Raw<int32_t>* from = buffer_of<int32_t>(array, 1) + row;
    crc_.add(codes, n);
    for (size_t child = 0; child < type.children.size(); ++child) {
      std::vector<int32_t> used;
      for (int64_t i = 0; i < n; ++i) {
        if (type.child_of[codes[i] & 127] == static_cast<int16_t>(child)) used.push_back(from[i]);
      }
      if (used.empty()) continue;
      const auto [low, high] = std::minmax_element(used.begin(), used.end());
      const int32_t first = *low, last = *high;
      for (int32_t& offset : used) offset -= first;
      crc_.add(used.data(), static_cast<int64_t>(used.size() * sizeof(int32_t)));
      add(type.children[child], *array.children[child], first, int64_t{last} - first + 1);
    }
  }

  template <class End>
  void runs_of(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    const ArrowArray& all = *array.children[0];
    const Raw<End>* ends = buffer_of<End>(all, 1) + all.offset;
    const auto ends_after = [](int64_t value, const Raw<End>& end) { return value < int64_t{end}; };
    const int64_t first = std::upper_bound(ends, ends + all.length, row, ends_after) - ends;
    int64_t run = first;
    for (bool more = true; more; ++run) {
      const End end = static_cast<End>(std::min<int64_t>(ends[run] - row, n));
      crc_.add(&end, sizeof end);
      more = end < n;
    }
    add(type.children[1], *array.children[1], first, run - first);
  }

  void runs(const Type& type, const ArrowArray& array, int64_t row, int64_t n) {
    switch (type.children[0].width) {
      case 2: return runs_of<int16_t>(type, array, row, n);
      case 4: return runs_of<int32_t>(type, array, row, n);
      default: return runs_of<int64_t>(type, array, row, n);
    }
  }

  static constexpr int64_t STAGE_BYTES = 4096;
  Crc32c crc_;
  int64_t n_staged_ = 0;
  uint8_t stage_[STAGE_BYTES + 64];
};

// CRC32C over the canonical buffers of an array; of a batch, given as a struct, over its columns.
inline uint32_t canonical_crc32c(const ArrowSchema& schema, const ArrowArray& array, int cpu) {
  const Type type = parse_type(schema);
  CanonicalChecksum checksum(cpu);
  checksum.add(type, array, 0, array.length);
  return checksum.value();
}

}  // namespace fabric
