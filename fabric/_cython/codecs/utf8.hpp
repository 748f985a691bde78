// Whether bytes are UTF-8.
//
// One job: `is_utf8`, by the table of Unicode 15, section 3.9 (no surrogates, nothing overlong,
// nothing over U+10FFFF). Eight bytes a step while they are ASCII.
#pragma once
#include <cstdint>
#include <cstring>

namespace fabric::codecs {

inline bool is_utf8(const uint8_t* at, int64_t size) {
  const uint8_t* const end = at + size;
  while (at < end) {
    if (end - at >= 8) {
      uint64_t word;
      std::memcpy(&word, at, sizeof word);
      if ((word & UINT64_C(0x8080808080808080)) == 0) {
        at += 8;
        continue;
      }
    }
    const uint8_t lead = *at++;
    if (lead < 0x80) continue;
    if (lead < 0xC2 || lead > 0xF4) return false;
    const int n = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    if (end - at < n) return false;
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at[0] < low || at[0] > high) return false;
    for (int k = 1; k < n; ++k) {
      if ((at[k] & 0xC0) != 0x80) return false;
    }
    at += n;
  }
  return true;
}

}  // namespace fabric::codecs
