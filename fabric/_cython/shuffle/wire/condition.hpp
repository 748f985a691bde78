// Waits without a time limit that libraries of older systems have, too.
//
// One job: `wait_until_true`. `std::condition_variable::wait` is a symbol of GLIBCXX_3.4.30, which
// manylinux_2_34 lacks; `wait_for` is inline code over the C library.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace fabric {

// Wait until `ready()`; it is asked with the lock held, first before any wait.
template <class Ready>
void wait_until_true(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                     Ready ready) {
  while (!ready()) changed.wait_for(lock, std::chrono::hours(1));
}

}  // namespace fabric
