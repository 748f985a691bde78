// CRC32C by instruction or tables, and the walk over an array's canonical buffers.
#include "wire/crc32c.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "arrays.hpp"
#include "cpu.hpp"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace fabric {

// CRC32C (Castagnoli, reflected polynomial 0x82F63B78), by the CPU's instruction or by tables. With
// SSE 4.2, three streams run side by side (the instruction takes 3 cycles, one starts each cycle)
// and are joined by tables that advance a CRC over zeros.
class Castagnoli {
 public:
  explicit Castagnoli(bool hardware, uint32_t state = ~UINT32_C(0))
      : hardware_(hardware), state_(state) {}

  void add(const void* data, int64_t n_bytes) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    if (n_bytes <= 0) return;
#if defined(__x86_64__)
    if (hardware_) {
      state_ = by_instruction(state_, bytes, n_bytes);
      return;
    }
#endif
    state_ = by_table(state_, bytes, n_bytes);
  }
  uint32_t state() const { return state_; }

 private:
  using Table = std::array<uint32_t, 256>;
  static constexpr uint32_t POLYNOMIAL = 0x82F63B78;
  static constexpr int64_t STREAM_BYTES = 1024;

  static constexpr uint32_t shifted(uint32_t crc, int n_bits) {
    for (int bit = 0; bit < n_bits; ++bit) crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
    return crc;
  }

  static constexpr std::array<Table, 8> slices() {  // slices[k][b]: byte b, then k zero bytes
    std::array<Table, 8> tables{};
    for (uint32_t byte = 0; byte < 256; ++byte) tables[0][byte] = shifted(byte, 8);
    for (size_t k = 1; k < 8; ++k) {
      for (uint32_t byte = 0; byte < 256; ++byte) {
        const uint32_t before = tables[k - 1][byte];
        tables[k][byte] = before >> 8 ^ tables[0][before & 255];
      }
    }
    return tables;
  }

  static uint32_t by_table(uint32_t crc, const uint8_t* data, int64_t n) {
    static constexpr std::array<Table, 8> TABLES = slices();
    for (; n >= 8; data += 8, n -= 8) {
      uint64_t word;
      std::memcpy(&word, data, 8);
      word ^= crc;
      crc = 0;
      for (size_t k = 0; k < 8; ++k) crc ^= TABLES[7 - k][word >> (8 * k) & 255];
    }
    for (; n > 0; ++data, --n) crc = crc >> 8 ^ TABLES[0][(crc ^ *data) & 255];
    return crc;
  }

  // What a CRC becomes after STREAM_BYTES zero bytes, a table for each of its four bytes.
  static const std::array<Table, 4>& zeros() {
    static const std::array<Table, 4> tables = [] {
      std::array<Table, 4> made{};
      const std::array<uint8_t, STREAM_BYTES> nothing{};
      for (size_t k = 0; k < 4; ++k) {
        for (uint32_t byte = 0; byte < 256; ++byte) {
          made[k][byte] = by_table(byte << (8 * k), nothing.data(), STREAM_BYTES);
        }
      }
      return made;
    }();
    return tables;
  }

  static uint32_t over_zeros(const std::array<Table, 4>& tables, uint32_t crc) {
    return tables[0][crc & 255] ^ tables[1][crc >> 8 & 255] ^ tables[2][crc >> 16 & 255] ^
           tables[3][crc >> 24];
  }

#if defined(__x86_64__)
  static uint64_t word_at(const uint8_t* data) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    return word;
  }

  __attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc,
                                                                   const uint8_t* data, int64_t n) {
    if (n >= 3 * STREAM_BYTES) {
      const std::array<Table, 4>& tables = zeros();
      for (; n >= 3 * STREAM_BYTES; data += 3 * STREAM_BYTES, n -= 3 * STREAM_BYTES) {
        uint64_t a = crc, b = 0, c = 0;
        for (int64_t i = 0; i < STREAM_BYTES; i += 8) {
          a = _mm_crc32_u64(a, word_at(data + i));
          b = _mm_crc32_u64(b, word_at(data + STREAM_BYTES + i));
          c = _mm_crc32_u64(c, word_at(data + 2 * STREAM_BYTES + i));
        }
        crc = over_zeros(tables, static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
        crc = over_zeros(tables, crc) ^ static_cast<uint32_t>(c);
      }
    }
    for (; n >= 8; data += 8, n -= 8) {
      crc = static_cast<uint32_t>(_mm_crc32_u64(crc, word_at(data)));
    }
    for (; n > 0; ++data, --n) crc = _mm_crc32_u8(crc, *data);
    return crc;
  }
#endif

  bool hardware_;
  uint32_t state_;
};

// Which bytes of an array count, in which order, whatever its slicing, offsets, padding, absent or
// useless validity bitmaps, and split of views over buffers. Offsets trusted. In no unnamed
// namespace: GCC then makes one function of it all, and each list of a column pays for its frame.
class CanonicalChecksum {
 public:
  explicit CanonicalChecksum(int cpu) : crc_(cpu != CPU_SCALAR) {}

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
  uint32_t value() const { return ~crc_.state(); }

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
  Castagnoli crc_;
  int64_t n_staged_ = 0;
  uint8_t stage_[STAGE_BYTES + 64];
};

Crc32c::Crc32c(int cpu) : hardware_(cpu != CPU_SCALAR) {}

void Crc32c::add(const void* data, int64_t n_bytes) {
  Castagnoli crc(hardware_, state_);
  crc.add(data, n_bytes);
  state_ = crc.state();
}

uint32_t canonical_crc32c(const ArrowSchema& schema, const ArrowArray& array, int cpu) {
  const Type type = parse_type(schema);
  CanonicalChecksum checksum(cpu);
  checksum.add(type, array, 0, array.length);
  return checksum.value();
}

}  // namespace fabric
