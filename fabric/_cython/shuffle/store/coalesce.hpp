// Sizes of what travels: many small slices become messages, none over 4 MiB.
//
// One job: turn the slices of one partition into messages. A slice is a range of a reordered batch;
// a message is a batch of its own buffers, or one slice, when that is big enough to go as it is.
// Cost: one copy of every row that shares its message with another slice.
#pragma once
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "store/size.hpp"

namespace fabric {

using BatchPtr = std::shared_ptr<arrow::RecordBatch>;

struct MessageSizes {
  int64_t alone = 256 << 10;               // a slice of this much goes uncopied
  int64_t message = 1 << 20;               // small ones are gathered up to this
  int64_t most = (4 << 20) - (128 << 10);  // the rest of 4 MiB is for framing
  bool compact = true;  // no bytes behind views, no entries of dictionaries but the rows' own
};
// Within a process nothing is sent: gathering only saves calls.
constexpr MessageSizes LOCAL_SIZES{64 << 10, 64 << 10, (4 << 20) - (128 << 10), false};

// A range of rows.
struct Rows {
  std::shared_ptr<arrow::RecordBatch> batch;
  int64_t begin = 0, n = 0;
};

class Coalescer {
 public:
  using Source = std::function<bool(Rows&)>;  // the next slice; false: no more

  Coalescer(Source source, MessageSizes sizes) : source_(std::move(source)), sizes_(sizes) {}

  // The next message: rows in order, never none; null when all rows are out.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next();

 private:
  struct Piece {
    Rows rows;
    Size size;
  };

  static Piece measured(Rows rows);
  int64_t counted(const Size& size) const;
  bool next_piece(Piece& out);
  bool fits(const Piece& piece) const;
  void hold(Piece piece);
  arrow::Status flush();
  arrow::Status join(const Rows* slices, size_t n);
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> one(const Rows& rows) const;
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> several(const Rows* slices, size_t n) const;

  Source source_;
  const MessageSizes sizes_;
  std::vector<Piece> waiting_;  // later halves, the next one last
  std::vector<Rows> held_;      // what the next message will be of, and its size
  Size size_;
  std::deque<std::shared_ptr<arrow::RecordBatch>> ready_;
};

// All messages of some slices at once.
arrow::Status coalesce_all(std::vector<Rows> slices, MessageSizes sizes,
                           std::vector<std::shared_ptr<arrow::RecordBatch>>& out);

constexpr int64_t FOREIGN_BYTES_MAX = (4 << 20) - (64 << 10);  // the rest is for framing

// Batches as messages towards foreign clients, whose gRPC refuses messages over 4 MiB by default:
// one after the other is cut into slices that fit, in order. A slice of views holds all bytes of
// its batch, so those are compacted; a larger single row travels alone. `next` is null when all of
// the last one is gone.
class Pieces {
 public:
  explicit Pieces(int64_t bytes_max = FOREIGN_BYTES_MAX) : bytes_max_(bytes_max) {}

  void put(BatchPtr batch) { waiting_.push_back(std::move(batch)); }
  arrow::Result<BatchPtr> next();

 private:
  int64_t bytes_max_;
  std::deque<BatchPtr> waiting_;
};

arrow::Result<std::vector<BatchPtr>> small_messages(BatchPtr batch, int64_t bytes_max);

}  // namespace fabric
