// SHA-256 and the message authentication code made of it.
//
// One job: FIPS 180-4 and RFC 2104, for tickets and the names of sessions. Our own, so that the
// wheel needs no libcrypto beside those that Python and Arrow bring.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace fabric {

std::array<uint8_t, 32> sha256(std::string_view bytes);

std::array<uint8_t, 32> hmac_sha256(std::string_view key, std::string_view bytes);

// Takes as long wherever they differ; only their lengths can be told from the time.
bool equal_in_constant_time(std::string_view one, std::string_view other);

}  // namespace fabric
