// Sizes of what travels: many small slices become messages, none over 4 MiB.
//
// One job: turn the slices of one partition into messages. A slice is a range of a reordered batch;
// a message is a batch of its own buffers, or one slice, when that is big enough to go as it is.
// Cost: one copy of every row that shares its message with another slice.
#pragma once
#include <arrow/array/array_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/array/util.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "store/compact.hpp"
#include "store/size.hpp"

namespace fabric {

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
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> next() {
    Piece piece;
    while (ready_.empty() && next_piece(piece)) {
      if (piece.size.body >= sizes_.alone || !fits(piece)) ARROW_RETURN_NOT_OK(flush());
      const bool alone = piece.size.body >= sizes_.alone;
      hold(std::move(piece));
      if (alone || size_.body >= sizes_.message) ARROW_RETURN_NOT_OK(flush());
    }
    if (ready_.empty()) ARROW_RETURN_NOT_OK(flush());
    if (ready_.empty()) return nullptr;
    auto message = std::move(ready_.front());
    ready_.pop_front();
    return message;
  }

 private:
  struct Piece {
    Rows rows;
    Size size;
  };

  static Piece measured(Rows rows) {
    Size size = size_of(*rows.batch, rows.begin, rows.n);
    return {std::move(rows), std::move(size)};
  }

  // Slices share dictionaries, so cutting does not make those smaller: half of a message at least
  // is left to rows.
  int64_t counted(const Size& size) const {
    return size.body + std::min(size.shared(), sizes_.most / 2);
  }

  // The next slice, halved until it fits or cutting does not help.
  bool next_piece(Piece& out) {
    if (waiting_.empty()) {
      Rows rows;
      do {
        if (!source_(rows)) return false;
      } while (rows.n == 0);
      waiting_.push_back(measured(std::move(rows)));
    }
    out = std::move(waiting_.back());
    waiting_.pop_back();
    while (out.rows.n > 1 && counted(out.size) > sizes_.most) {
      const int64_t half = out.rows.n / 2;
      const Rows& whole = out.rows;
      Piece first = measured({whole.batch, whole.begin, half});
      Piece second = measured({whole.batch, whole.begin + half, whole.n - half});
      // Halves of one long run, or of lists that overlap, hold as much as the whole.
      if (first.size.body + second.size.body > out.size.body + out.size.body / 2) return true;
      waiting_.push_back(std::move(second));
      out = std::move(first);
    }
    return true;
  }

  bool fits(const Piece& piece) const {
    Size both = size_;
    both.body += piece.size.body;
    for (const Size::Dictionary& found : piece.size.dictionaries) both.add_dictionary(found);
    return counted(both) <= sizes_.most;
  }

  void hold(Piece piece) {
    size_.body += piece.size.body;
    for (const Size::Dictionary& found : piece.size.dictionaries) size_.add_dictionary(found);
    held_.push_back(std::move(piece.rows));
  }

  arrow::Status flush() {
    size_ = {};
    const std::vector<Rows> held = std::exchange(held_, {});
    return held.empty() ? arrow::Status::OK() : join(held.data(), held.size());
  }

  // One message of `n` slices; where their dictionaries can't be unified, it is cut.
  arrow::Status join(const Rows* slices, size_t n) {
    auto whole = n == 1 ? one(slices[0]) : several(slices, n);
    if (whole.ok()) {
      ready_.push_back(whole.MoveValueUnsafe());
      return arrow::Status::OK();
    }
    if (n == 1 || whole.status().IsOutOfMemory()) return whole.status();
    ARROW_RETURN_NOT_OK(join(slices, n / 2));
    return join(slices + n / 2, n - n / 2);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> one(const Rows& rows) const {
    const bool whole = rows.begin == 0 && rows.n == rows.batch->num_rows();
    auto batch = whole ? rows.batch : rows.batch->Slice(rows.begin, rows.n);
    return sizes_.compact ? compacted(std::move(batch), false) : std::move(batch);
  }

  arrow::Result<std::shared_ptr<arrow::RecordBatch>> several(const Rows* slices, size_t n) const {
    const auto& schema = slices[0].batch->schema();
    int64_t n_rows = 0;
    for (size_t i = 0; i < n; ++i) n_rows += slices[i].n;
    arrow::ArrayVector columns;
    for (int c = 0; c < schema->num_fields(); ++c) {
      arrow::ArrayVector parts;
      parts.reserve(n);
      for (size_t i = 0; i < n; ++i) {
        parts.push_back(slices[i].batch->column(c)->Slice(slices[i].begin, slices[i].n));
      }
      ARROW_ASSIGN_OR_RAISE(auto column, arrow::Concatenate(parts));
      columns.push_back(std::move(column));
    }
    auto batch = arrow::RecordBatch::Make(schema, n_rows, std::move(columns));
    return sizes_.compact ? compacted(std::move(batch), true) : std::move(batch);
  }

  Source source_;
  const MessageSizes sizes_;
  std::vector<Piece> waiting_;  // later halves, the next one last
  std::vector<Rows> held_;      // what the next message will be of, and its size
  Size size_;
  std::deque<std::shared_ptr<arrow::RecordBatch>> ready_;
};

// All messages of some slices at once.
inline arrow::Status coalesce_all(std::vector<Rows> slices, MessageSizes sizes,
                                  std::vector<std::shared_ptr<arrow::RecordBatch>>& out) {
  const auto source = [&slices, at = size_t{0}](Rows& rows) mutable {
    if (at == slices.size()) return false;
    rows = slices[at++];
    return true;
  };
  Coalescer messages(source, sizes);
  while (true) {
    ARROW_ASSIGN_OR_RAISE(auto message, messages.next());
    if (message == nullptr) return arrow::Status::OK();
    out.push_back(std::move(message));
  }
}

}  // namespace fabric
