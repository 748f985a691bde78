// A value wherever it lies.
//
// One job: buffers that came with a message need not be aligned, and a compiler may rely on it that
// a `const int32_t*` is.
#pragma once

namespace fabric {

template <class T>
struct __attribute__((packed, may_alias)) Raw {
  T value;
  operator T() const { return value; }
};

}  // namespace fabric
