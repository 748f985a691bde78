// FORWARD: a stub; the wire's helper writes it.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace fabric {

std::array<uint8_t, 32> sha256(std::string_view bytes);

}  // namespace fabric
