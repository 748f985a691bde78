// CRC32C of bytes, and of the canonical buffers of an array: what an array means, however it lies.
//
// One job: extend a CRC by bytes, and say which bytes of an array count (`checksum.pyx` has the
// list). By the CPU's instruction where it has one.
#pragma once
#include <cstdint>

struct ArrowArray;
struct ArrowSchema;

namespace fabric {

class Crc32c {
 public:
  explicit Crc32c(int cpu);

  void add(const void* data, int64_t n_bytes);
  uint32_t value() const { return ~state_; }

 private:
  bool hardware_;
  uint32_t state_ = ~UINT32_C(0);
};

// CRC32C over the canonical buffers of an array; of a batch, given as a struct, over its columns.
uint32_t canonical_crc32c(const ArrowSchema& schema, const ArrowArray& array, int cpu);

}  // namespace fabric
