// How slices are cut, gathered and joined into messages, and batches cut for foreign clients.
#include "store/coalesce.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>

#include <algorithm>

namespace fabric {
namespace {

// Of a batch as a message, and of the dictionaries that may go before it.
arrow::Result<int64_t> message_bytes(const arrow::RecordBatch& batch) {
  int64_t n_bytes = 0;
  ARROW_RETURN_NOT_OK(arrow::ipc::GetRecordBatchSize(batch, &n_bytes));
  return n_bytes + size_of(batch, 0, batch.num_rows()).shared();
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::RecordBatch>> Coalescer::next() {
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

Coalescer::Piece Coalescer::measured(Rows rows) {
  Size size = size_of(*rows.batch, rows.begin, rows.n);
  return {std::move(rows), std::move(size)};
}

// Slices share dictionaries, so cutting does not make those smaller: half of a message at least
// is left to rows.
int64_t Coalescer::counted(const Size& size) const {
  return size.body + std::min(size.shared(), sizes_.most / 2);
}

// The next slice, halved until it fits or cutting does not help.
bool Coalescer::next_piece(Piece& out) {
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

bool Coalescer::fits(const Piece& piece) const {
  Size both = size_;
  both.body += piece.size.body;
  for (const Size::Dictionary& found : piece.size.dictionaries) both.add_dictionary(found);
  return counted(both) <= sizes_.most;
}

void Coalescer::hold(Piece piece) {
  size_.body += piece.size.body;
  for (const Size::Dictionary& found : piece.size.dictionaries) size_.add_dictionary(found);
  held_.push_back(std::move(piece.rows));
}

arrow::Status Coalescer::flush() {
  size_ = {};
  const std::vector<Rows> held = std::exchange(held_, {});
  return held.empty() ? arrow::Status::OK() : join(held.data(), held.size());
}

// One message of `n` slices; where their dictionaries can't be unified, it is cut.
arrow::Status Coalescer::join(const Rows* slices, size_t n) {
  auto whole = n == 1 ? one(slices[0]) : several(slices, n);
  if (whole.ok()) {
    ready_.push_back(whole.MoveValueUnsafe());
    return arrow::Status::OK();
  }
  if (n == 1 || whole.status().IsOutOfMemory()) return whole.status();
  ARROW_RETURN_NOT_OK(join(slices, n / 2));
  return join(slices + n / 2, n - n / 2);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> Coalescer::one(const Rows& rows) const {
  const bool whole = rows.begin == 0 && rows.n == rows.batch->num_rows();
  auto batch = whole ? rows.batch : rows.batch->Slice(rows.begin, rows.n);
  return sizes_.compact ? compacted(std::move(batch), false) : std::move(batch);
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> Coalescer::several(const Rows* slices,
                                                                      size_t n) const {
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

arrow::Status coalesce_all(std::vector<Rows> slices, MessageSizes sizes,
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

arrow::Result<BatchPtr> Pieces::next() {
  while (!waiting_.empty()) {
    BatchPtr piece = std::move(waiting_.front());
    waiting_.pop_front();
    ARROW_ASSIGN_OR_RAISE(int64_t size, message_bytes(*piece));
    if (size <= bytes_max_) return piece;
    ARROW_ASSIGN_OR_RAISE(piece, compacted(piece, false));
    ARROW_ASSIGN_OR_RAISE(size, message_bytes(*piece));
    if (piece->num_rows() <= 1 || size <= bytes_max_) return piece;
    const int64_t half = piece->num_rows() / 2;
    ARROW_ASSIGN_OR_RAISE(BatchPtr first, compacted(piece->Slice(0, half), false));
    ARROW_ASSIGN_OR_RAISE(BatchPtr second, compacted(piece->Slice(half), false));
    ARROW_ASSIGN_OR_RAISE(const int64_t first_size, message_bytes(*first));
    ARROW_ASSIGN_OR_RAISE(const int64_t second_size, message_bytes(*second));
    // Slices carry all bytes (a dictionary of which each has every entry): cutting only repeats.
    if (first_size + second_size > size + size / 2) return piece;
    waiting_.push_front(std::move(second));
    waiting_.push_front(std::move(first));
  }
  return nullptr;
}

arrow::Result<std::vector<BatchPtr>> small_messages(BatchPtr batch, int64_t bytes_max) {
  Pieces pieces(bytes_max);
  pieces.put(std::move(batch));
  std::vector<BatchPtr> found;
  while (true) {
    ARROW_ASSIGN_OR_RAISE(BatchPtr piece, pieces.next());
    if (piece == nullptr) return found;
    found.push_back(std::move(piece));
  }
}

}  // namespace fabric
