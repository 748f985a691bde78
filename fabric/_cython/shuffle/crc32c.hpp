// CRC32C (Castagnoli, reflected polynomial 0x82F63B78), by the CPU's instruction or by tables.
//
// One job: extend a CRC by bytes. With SSE 4.2, three streams run side by side (the instruction
// takes 3 cycles, one starts each cycle) and are joined by tables that advance a CRC over zeros.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>

#include "cpu.hpp"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace fabric {

class Crc32c {
 public:
  explicit Crc32c(int cpu) : hardware_(cpu != CPU_SCALAR) {}

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
  uint32_t value() const { return ~state_; }

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
  uint32_t state_ = ~UINT32_C(0);
};

}  // namespace fabric
