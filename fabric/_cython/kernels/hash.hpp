// The hash of a row: one specification for every Arrow type (words of it in hash.pyx).
//
// One job: `Column`, which writes one word for each row of a column, whatever its layout and
// nesting, and hashes of blocks of rows. Words of single values are words.hpp's; placement by hash
// lives in partition.hpp.
#pragma once
#include <cstdint>
#include <vector>

#include "arrays.hpp"

struct ArrowArray;
struct ArrowSchema;

namespace fabric {

struct Type;

constexpr int64_t HASH_BLOCK = 1024;  // rows hashed together: their words stay in the L1 cache

// What the hash of a row starts from.
uint64_t start_of(uint64_t seed);

// A parsed Type bound to an array for one call. The caller validated the arrays: offsets are
// trusted, dictionary indices are not.
class Column {
 public:
  Column(const Type& type, const ArrowArray& array, int cpu);

  // The words themselves, where a column is nothing but 64-bit words; else nullptr.
  const Raw<uint64_t>* plain(int64_t row) const;

  // One word for each of the rows [row, row + n), counted from the array's own offset.
  void words(int64_t row, int64_t n, uint64_t* out) const;

 private:
  class Window;
  bool valid(int64_t row) const;
  template <class T>
  void integers(int64_t row, int64_t n, uint64_t* out) const;
  void integers_of_width(bool is_signed, int64_t row, int64_t n, uint64_t* out) const;
  void fixed(int64_t row, int64_t n, uint64_t* out) const;
  uint64_t odd_word(const uint8_t* value) const;
  template <class Offset>
  void binary(int64_t row, int64_t n, uint64_t* out) const;
  void views(int64_t row, int64_t n, uint64_t* out) const;
  static uint64_t fold(Window& window, int64_t first, int64_t last, int64_t end);
  template <class Offset>
  void lists(int64_t row, int64_t n, uint64_t* out) const;
  template <class Offset>
  void list_views(int64_t row, int64_t n, uint64_t* out) const;
  void fixed_lists(int64_t row, int64_t n, uint64_t* out) const;
  void structs(int64_t row, int64_t n, uint64_t* out) const;
  void unions(int64_t row, int64_t n, uint64_t* out) const;
  int64_t index_at(int64_t row) const;
  void dictionary(int64_t row, int64_t n, uint64_t* out) const;
  int64_t run_end_at(int64_t run) const;
  void runs(int64_t row, int64_t n, uint64_t* out) const;

  const Type& type_;
  const ArrowArray& array_;
  int cpu_;
  const uint8_t* validity_;
  uint64_t factor_ = 1;
  std::vector<Column> children_;
  std::vector<uint64_t> dictionary_words_;
};

// Hashes of the rows of one column of plain words: every row starts from the same hash.
void hash_words(const Raw<uint64_t>* words, int64_t n, uint64_t start, int cpu, uint64_t* hashes);

// Hashes of the rows [row, row + n) of bound key columns; n <= HASH_BLOCK.
void hash_block(const std::vector<Column>& keys, int64_t row, int64_t n, uint64_t start, int cpu,
                uint64_t* hashes);

// Take one word for each row of an array into `hashes`.
void step_array(const ArrowSchema& schema, const ArrowArray& array, int cpu, uint64_t* hashes);

}  // namespace fabric
