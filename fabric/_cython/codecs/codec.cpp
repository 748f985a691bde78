// What decoders of all formats share: rows that are whole or not there, and bad ones noted.
#include "codecs/codec.hpp"

namespace fabric::codecs {

void Decoder::append(const Span* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i, ++n_values_) {
    const int64_t row = rows_.length();
    bool is_good = true;
    if (values[i].data != nullptr) {
      is_good = decode(values[i], reason_);
    } else {
      for (Column& column : columns()) {
        if (column.type().is_nullable) column.null();
        else is_good = false;
      }
      if (!is_good) reason_ = "the value is null, but a column is not nullable";
    }
    if (is_good) {
      rows_.end_struct();
      continue;
    }
    rows_.truncate(row);
    bad_.push_back({n_values_, std::move(reason_)});
    reason_.clear();
  }
}

void Decoder::finish(ArrowArray& out, std::vector<Bad>& bad) {
  rows_.finish(out);
  bad = std::move(bad_);
  bad_.clear();
  n_values_ = 0;
}

void Decoder::reset() noexcept {
  rows_.truncate(0);
  bad_.clear();
  reason_.clear();
  n_values_ = 0;
}

bool Values::finish(ArrowArray& out) {
  const bool is_large = data.size() > INT32_MAX;
  make_array(out, size(), 0);
  try {
    Bytes ends;
    for (const int64_t end : offsets) {
      if (is_large) ends.add(end);
      else ends.add(static_cast<int32_t>(end));
    }
    out.n_buffers = 3;
    if (!null_rows.empty()) {
      Bytes validity;
      const int64_t n_bytes = (size() + 7) >> 3;
      std::memset(validity.room(n_bytes), 0xFF, static_cast<size_t>(n_bytes));
      validity.set_size(n_bytes);
      for (const int64_t row : null_rows) {
        validity.data()[row >> 3] &= static_cast<char>(~(1 << (row & 7)));
      }
      out.buffers[0] = validity.take();
      out.null_count = static_cast<int64_t>(null_rows.size());
    }
    out.buffers[1] = ends.take();
    out.buffers[2] = data.take();
  } catch (...) {
    out.release(&out);
    throw;
  }
  offsets.assign(1, 0);
  null_rows.clear();
  return is_large;
}

}  // namespace fabric::codecs
