// SHA-256 a block at a time, and HMAC as two digests that each go on after a block of the key.
#include "wire/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace fabric {
namespace {

constexpr size_t BLOCK_BYTES = 64;
using DigestState = std::array<uint32_t, 8>;

constexpr bool is_prime(uint32_t number) {
  for (uint32_t factor = 2; factor * factor <= number; ++factor) {
    if (number % factor == 0) return false;
  }
  return number > 1;
}

// The first 32 bits after the point of a prime's root: the greatest number whose power does not
// exceed prime * 2^(32 * degree), less its bits before the point.
constexpr uint32_t root_fraction(uint32_t prime, int degree) {
  const unsigned __int128 most = static_cast<unsigned __int128>(prime) << (32 * degree);
  uint64_t root = 0;
  for (int bit = 34; bit >= 0; --bit) {  // roots are below 8
    const uint64_t greater = root | uint64_t{1} << bit;
    unsigned __int128 power = 1;
    for (int i = 0; i < degree; ++i) power *= greater;
    if (power <= most) root = greater;
  }
  return static_cast<uint32_t>(root);
}

template <size_t N>
constexpr std::array<uint32_t, N> root_fractions(int degree) {  // of the first N primes
  std::array<uint32_t, N> fractions{};
  uint32_t number = 1;
  for (uint32_t& fraction : fractions) {
    do ++number;
    while (!is_prime(number));
    fraction = root_fraction(number, degree);
  }
  return fractions;
}

constexpr DigestState DIGEST_START = root_fractions<8>(2);          // FIPS 180-4, 5.3.3
constexpr std::array<uint32_t, 64> ROUNDS = root_fractions<64>(3);  // FIPS 180-4, 4.2.2
static_assert(DIGEST_START[0] == 0x6a09e667 && ROUNDS[0] == 0x428a2f98);

// FIPS 180-4, 6.2.2; its letters.
void digest_block(DigestState& state, const uint8_t* block) {
  using std::rotr;
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) {
    const uint8_t* at = block + 4 * t;
    w[t] = uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
  }
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t x = w[t - 2], y = w[t - 15];
    w[t] = (rotr(x, 17) ^ rotr(x, 19) ^ x >> 10) + w[t - 7] +
           (rotr(y, 7) ^ rotr(y, 18) ^ y >> 3) + w[t - 16];
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t t1 = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                        ROUNDS[t] + w[t];
    const uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) +
                        ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  const DigestState added{a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

// The digest of `bytes` behind whole blocks of `n_before` bytes that brought it to `state`.
std::array<uint8_t, 32> digest_after(DigestState state, uint64_t n_before, std::string_view bytes) {
  const uint64_t n_bits = 8 * (n_before + bytes.size());
  const auto* at = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t n_left = bytes.size();
  for (; n_left >= BLOCK_BYTES; at += BLOCK_BYTES, n_left -= BLOCK_BYTES) digest_block(state, at);
  // What is left, a one bit, zeros, and the number of bits in the last 8 bytes.
  std::array<uint8_t, 2 * BLOCK_BYTES> last{};
  std::copy_n(at, n_left, last.begin());
  last[n_left] = 0x80;
  const size_t n_last = n_left + 1 + 8 <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
  for (size_t i = 0; i < 8; ++i) last[n_last - 1 - i] = static_cast<uint8_t>(n_bits >> (8 * i));
  for (size_t i = 0; i < n_last; i += BLOCK_BYTES) digest_block(state, last.data() + i);
  std::array<uint8_t, 32> digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

std::string_view text_of(const std::array<uint8_t, 32>& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

std::array<uint8_t, 32> sha256(std::string_view bytes) {
  return digest_after(DIGEST_START, 0, bytes);
}

std::array<uint8_t, 32> hmac_sha256(std::string_view key, std::string_view bytes) {
  std::array<uint8_t, 32> shorter;
  if (key.size() > BLOCK_BYTES) {
    shorter = sha256(key);
    key = text_of(shorter);
  }
  const auto after_key = [key](uint8_t pad) {
    std::array<uint8_t, BLOCK_BYTES> block{};
    std::copy(key.begin(), key.end(), block.begin());
    for (uint8_t& byte : block) byte ^= pad;
    DigestState state = DIGEST_START;
    digest_block(state, block.data());
    return state;
  };
  const std::array<uint8_t, 32> inner = digest_after(after_key(0x36), BLOCK_BYTES, bytes);
  return digest_after(after_key(0x5c), BLOCK_BYTES, text_of(inner));
}

bool equal_in_constant_time(std::string_view one, std::string_view other) {
  if (one.size() != other.size()) return false;
  volatile uint8_t difference = 0;  // volatile: a compiler may not stop at the first one
  for (size_t i = 0; i < one.size(); ++i) {
    difference = difference | static_cast<uint8_t>(one[i] ^ other[i]);
  }
  return difference == 0;
}

}  // namespace fabric
