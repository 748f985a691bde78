// When a wait is over at the latest.
//
// One job: a point on the steady clock from seconds, as Python counts them.
#pragma once
#include <algorithm>
#include <chrono>

#include "ring/waiting.hpp"

namespace fabric {

// `seconds` from now; less than nothing is now, and a year is as good as for ever.
inline Deadline deadline_in(double seconds) {
  constexpr double YEAR_S = 365.0 * 24 * 3600;
  const std::chrono::duration<double> wait(std::clamp(seconds, 0.0, YEAR_S));
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(wait);
}

}  // namespace fabric
