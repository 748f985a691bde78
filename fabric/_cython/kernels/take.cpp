// Reordering whole columns.
//
// One job: walk a column and say which loop of gather.hpp moves which buffer.
#include "take.hpp"

#include <algorithm>
#include <stdexcept>

#include "gather.hpp"
#include "memory.hpp"

namespace fabric {
namespace {

class Taker {
 public:
  Taker(Holder& holder, int cpu) : holder_(holder), cpu_(cpu) {}

  // Rows of `in`, counted from `base` past its own offset, in `order`, as `out`.
  void take(const Type& type, ArrowArray& in, int64_t base, const Order& order, ArrowArray& out) {
    base += in.offset;
    switch (type.layout) {
      case Layout::null:
        holder_.init(out, order.n(), 0, 0);
        out.null_count = order.n();
        return;
      case Layout::boolean: return booleans(type, in, base, order, out);
      case Layout::fixed: return fixed(type, in, base, order, out);
      case Layout::binary: return binary<int32_t>(type, in, base, order, out);
      case Layout::large_binary: return binary<int64_t>(type, in, base, order, out);
      case Layout::view: return views(type, in, base, order, out);
      case Layout::list: return lists<int32_t>(type, in, base, order, out);
      case Layout::large_list: return lists<int64_t>(type, in, base, order, out);
      case Layout::list_view: return list_views<int32_t>(type, in, base, order, out);
      case Layout::large_list_view: return list_views<int64_t>(type, in, base, order, out);
      case Layout::fixed_list: return fixed_lists(type, in, base, order, out);
      case Layout::structure: return structs(type, in, base, order, out);
      case Layout::sparse_union: return sparse_unions(type, in, base, order, out);
      case Layout::dense_union: return dense_unions(type, in, base, order, out);
      case Layout::dictionary:
        fixed(type, in, base, order, out);
        out.dictionary = holder_.adopt(in.dictionary);
        return;
      case Layout::run_end: return runs(type, in, base, order, out);
    }
  }

  void take_placed(const Type& type, ArrowArray& in, const Order& order,
                   const std::function<int64_t(int64_t)>& place, ArrowArray& out) {
    holder_.init(out, order.n(), 1, in.n_children);
    const size_t n_columns = type.children.size();
    size_t moving = 0;
    while (moving < n_columns && !is_plain(type.children[moving], *in.children[moving])) ++moving;
    const int64_t width = moving < n_columns ? type.children[moving].width : 0;
    const uint8_t* from = nullptr;
    uint8_t* to = nullptr;
    if (width > 0) {
      const ArrowArray& column = *in.children[moving];
      holder_.init(*out.children[moving], order.n(), 2, 0);
      out.children[moving]->buffers[1] = to = holder_.buffer<uint8_t>(order.n() * width);
      from = bytes_of(column, 1) + (in.offset + column.offset) * width;
    }
    for (int64_t row = 0, n = 0; row < order.n(); row += n) {
      n = place(row);
      if (width == 0) continue;
      move_fixed(from + row * width, width, nullptr, order.target() + row, n, to);
    }
    validity(type, in, in.offset, order, out);
    for (size_t i = 0; i < n_columns; ++i) {
      if (i == moving && width > 0) continue;
      take(type.children[i], *in.children[i], in.offset, order, *out.children[i]);
    }
  }

 private:
  static bool is_plain(const Type& type, const ArrowArray& in) {
    return type.layout == Layout::fixed && validity_of(type, in) == nullptr;
  }

  // Validity of the output; returns its bitmap, or nullptr when no row is null.
  const uint8_t* validity(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
                          ArrowArray& out) {
    const uint8_t* bits = validity_of(type, in);
    if (bits == nullptr || order.n() == 0) return nullptr;
    uint8_t* made = holder_.buffer<uint8_t>((order.n() + 7) / 8);
    out.null_count = order.n() - gather_bits(bits, base, order.rows(), order.n(), made);
    if (out.null_count == 0) return nullptr;
    out.buffers[0] = made;
    return made;
  }

  void booleans(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
                ArrowArray& out) {
    holder_.init(out, order.n(), 2, 0);
    validity(type, in, base, order, out);
    uint8_t* made = holder_.buffer<uint8_t>((order.n() + 7) / 8);
    gather_bits(bytes_of(in, 1), base, order.rows(), order.n(), made);
    out.buffers[1] = made;
  }

  void fixed(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
             ArrowArray& out) {
    holder_.init(out, order.n(), 2, 0);
    validity(type, in, base, order, out);
    out.buffers[1] = moved(in, 1, type.width, base * type.width, order);
  }

  // Values of `width` bytes that begin `first` bytes into a buffer.
  const void* moved(const ArrowArray& in, int index, int64_t width, int64_t first,
                    const Order& order) {
    uint8_t* made = holder_.buffer<uint8_t>(order.n() * width);
    if (order.n() * width == 0) return made;
    const uint32_t* rows = order.target() == nullptr ? order.rows() : nullptr;
    move_fixed(bytes_of(in, index) + first, width, rows, order.target(), order.n(), made);
    return made;
  }

  // Offsets of the output from the sizes of the input rows; null rows are empty.
  template <class Offset, class Size>
  Offset* offsets_from(const Order& order, const uint8_t* valid, Size size_of) {
    Offset* offsets = holder_.buffer<Offset>(order.n() + 1);
    const uint32_t* rows = order.rows();
    int64_t sum = 0;
    for (int64_t j = 0; j < order.n(); ++j) {
      offsets[j] = static_cast<Offset>(sum);
      if (valid == nullptr || bit_at(valid, j)) sum += size_of(rows[j]);
      if (sum != static_cast<Offset>(sum)) throw std::overflow_error("offsets do not fit 32 bits");
    }
    offsets[order.n()] = static_cast<Offset>(sum);
    return offsets;
  }

  template <class Offset>
  void binary(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
              ArrowArray& out) {
    const int64_t n = order.n();
    holder_.init(out, n, 3, 0);
    const uint8_t* valid = validity(type, in, base, order, out);
    const uint8_t* data = bytes_of(in, 2);
    const uint8_t* end = n == 0 ? data : data + buffer_of<Offset>(in, 1)[in.offset + in.length];
    const Raw<Offset>* from = buffer_of<Offset>(in, 1) + base;
#if defined(__x86_64__)
    if (cpu_ == CPU_AVX512 && order.target() != nullptr) {
      Offset* to = holder_.buffer<Offset>(n + 1);
      scatter_offsets(from, order.target(), n, valid ? bytes_of(in, 0) : nullptr, base, to);
      uint8_t* made = holder_.buffer<uint8_t>(to[n]);
      scatter_bytes(from, data, order.target(), n, to, made);
      out.buffers[1] = to;
      out.buffers[2] = made;
      return;
    }
#endif
    Offset* to = offsets_from<Offset>(
        order, valid, [from](uint32_t row) { return from[row + int64_t{1}] - from[row]; });
    uint8_t* made = holder_.buffer<uint8_t>(to[n]);
    gather_bytes(from, data, end, order.rows(), n, to, made);
    out.buffers[1] = to;
    out.buffers[2] = made;
  }

  // Where an out-of-line view goes: buffers are cut before 2^31 bytes, as view offsets are 32-bit.
  struct ViewPlan {
    std::vector<int64_t> sizes;
    void add(int32_t size) {
      if (sizes.empty() || sizes.back() + size > INT32_MAX) sizes.push_back(0);
      sizes.back() += size;
    }
  };

  void views(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
             ArrowArray& out) {
    const uint8_t* views = bytes_of(in, 1) + base * 16;
    const uint8_t* valid = validity_of(type, in);
    const uint32_t* rows = order.rows();
    ViewPlan plan;
    for (int64_t j = 0; j < order.n(); ++j) {
      const int32_t size = load<int32_t>(views + int64_t{rows[j]} * 16);
      if (size > 12 && (valid == nullptr || bit_at(valid, base + rows[j]))) plan.add(size);
    }
    const int64_t n_data = static_cast<int64_t>(plan.sizes.size());
    holder_.init(out, order.n(), 3 + n_data, 0);
    std::vector<uint8_t*> data;
    for (int64_t i = 0; i < n_data; ++i) {
      data.push_back(holder_.buffer<uint8_t>(plan.sizes[static_cast<size_t>(i)]));
      out.buffers[2 + i] = data.back();
    }
    int64_t* sizes = holder_.buffer<int64_t>(n_data);
    std::copy(plan.sizes.begin(), plan.sizes.end(), sizes);
    out.buffers[2 + n_data] = sizes;
    const uint8_t* made_valid = validity(type, in, base, order, out);
    out.buffers[1] = copy_views(in, views, order, made_valid, data);
  }

  // Fetch the bytes of a view; what a null row holds may point anywhere, and no harm is done.
  static void fetch_view(const ArrowArray& in, const uint8_t* view) {
    const uint32_t buffer = load<uint32_t>(view + 8);
    if (load<int32_t>(view) <= 12 || buffer >= in.n_buffers - 3) return;
    __builtin_prefetch(bytes_of(in, 2 + buffer) + load<uint32_t>(view + 12));
  }

  const void* copy_views(const ArrowArray& in, const uint8_t* views, const Order& order,
                         const uint8_t* valid, const std::vector<uint8_t*>& data) {
    uint8_t* made = holder_.buffer<uint8_t>(order.n() * 16);
    const Raw<int64_t>* source_sizes = buffer_of<int64_t>(in, in.n_buffers - 1);
    const uint32_t* rows = order.rows();
    ViewPlan plan;
    for (int64_t j = 0; j < order.n(); ++j) {
      uint8_t* to = made + j * 16;
      if (j + ROWS_AHEAD < order.n()) fetch_view(in, views + int64_t{rows[j + ROWS_AHEAD]} * 16);
      if (valid != nullptr && !bit_at(valid, j)) {
        std::memset(to, 0, 16);
        continue;
      }
      std::memcpy(to, views + int64_t{rows[j]} * 16, 16);
      const int32_t size = load<int32_t>(to);
      if (size <= 12) continue;
      plan.add(size);
      const int32_t index = static_cast<int32_t>(plan.sizes.size()) - 1;
      const int32_t offset = static_cast<int32_t>(plan.sizes.back() - size);
      const int32_t source = load<int32_t>(to + 8);
      const uint8_t* from = bytes_of(in, 2 + source);
      copy_bytes(from + load<int32_t>(to + 12), from + source_sizes[source], size,
                 data[static_cast<size_t>(index)] + offset);
      std::memcpy(to + 8, &index, 4);
      std::memcpy(to + 12, &offset, 4);
    }
    return made;
  }

  // Take `size(j)` neighbours from `first(row)` on for each output row j, from a child.
  template <class Offset, class First>
  void elements(const Type& type, ArrowArray& in, const Order& order, const Offset* offsets,
                First first_of, ArrowArray& out) {
    const int64_t total = offsets[order.n()];
    if (in.length > UINT32_MAX || total > UINT32_MAX) {
      throw std::overflow_error("lists of a batch may hold 2**32 - 1 elements at most");
    }
    Scratch<uint32_t> ids(holder_.allocator(), total);
    uint32_t* next = ids.data();
    const uint32_t* rows = order.rows();
    for (int64_t j = 0; j < order.n(); ++j) {
      uint32_t id = static_cast<uint32_t>(first_of(rows[j]));
      for (Offset k = offsets[j]; k < offsets[j + 1]; ++k) *next++ = id++;
    }
    take(type, in, 0, Order::gather(ids.data(), total), out);
  }

  template <class Offset>
  void lists(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
             ArrowArray& out) {
    holder_.init(out, order.n(), 2, 1);
    const uint8_t* valid = validity(type, in, base, order, out);
    const Raw<Offset>* from = buffer_of<Offset>(in, 1) + base;
    Offset* to = offsets_from<Offset>(
        order, valid, [from](uint32_t row) { return from[row + int64_t{1}] - from[row]; });
    out.buffers[1] = to;
    elements(type.children[0], *in.children[0], order, to,
             [from](uint32_t row) { return static_cast<int64_t>(from[row]); }, *out.children[0]);
  }

  template <class Offset>
  void list_views(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
                  ArrowArray& out) {
    holder_.init(out, order.n(), 3, 1);
    const uint8_t* valid = validity(type, in, base, order, out);
    const Raw<Offset>* from = buffer_of<Offset>(in, 1) + base;
    const Raw<Offset>* sizes = buffer_of<Offset>(in, 2) + base;
    Offset* to = offsets_from<Offset>(
        order, valid, [sizes](uint32_t row) { return static_cast<Offset>(sizes[row]); });
    Offset* to_sizes = holder_.buffer<Offset>(order.n());
    for (int64_t j = 0; j < order.n(); ++j) to_sizes[j] = to[j + 1] - to[j];
    out.buffers[1] = to;
    out.buffers[2] = to_sizes;
    elements(type.children[0], *in.children[0], order, to,
             [from](uint32_t row) { return static_cast<int64_t>(from[row]); }, *out.children[0]);
  }

  void fixed_lists(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
                   ArrowArray& out) {
    holder_.init(out, order.n(), 1, 1);
    validity(type, in, base, order, out);
    const Type& child_type = type.children[0];
    ArrowArray& child = *in.children[0];
    const int64_t size = type.width, total = order.n() * size;
    if (child_type.layout == Layout::fixed && validity_of(child_type, child) == nullptr) {
      const int64_t width = size * child_type.width;  // a row of numbers moves as one value
      const int64_t first = (base * size + child.offset) * child_type.width;
      holder_.init(*out.children[0], total, 2, 0);
      out.children[0]->buffers[1] = moved(child, 1, width, first, order);
      return;
    }
    Scratch<int64_t> ends(holder_.allocator(), order.n() + 1);
    for (int64_t j = 0; j <= order.n(); ++j) ends.data()[j] = j * size;
    elements(child_type, child, order, ends.data(),
             [base, size](uint32_t row) { return (base + row) * size; }, *out.children[0]);
  }

  void structs(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
               ArrowArray& out) {
    holder_.init(out, order.n(), 1, in.n_children);
    validity(type, in, base, order, out);
    children(type, in, base, order, out);
  }

  void children(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
                ArrowArray& out) {
    for (size_t i = 0; i < type.children.size(); ++i) {
      take(type.children[i], *in.children[i], base, order, *out.children[i]);
    }
  }

  void sparse_unions(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
                     ArrowArray& out) {
    holder_.init(out, order.n(), 1, in.n_children);
    out.buffers[0] = moved(in, 0, 1, base, order);
    children(type, in, base, order, out);
  }

  void dense_unions(const Type& type, const ArrowArray& in, int64_t base, const Order& order,
                    ArrowArray& out) {
    holder_.init(out, order.n(), 2, in.n_children);
    const auto* codes = static_cast<const uint8_t*>(moved(in, 0, 1, base, order));
    out.buffers[0] = codes;
    int32_t* to = holder_.buffer<int32_t>(order.n());
    out.buffers[1] = to;
    std::vector<std::vector<uint32_t>> ids(type.children.size());
    const Raw<int32_t>* from = buffer_of<int32_t>(in, 1) + base;
    const uint32_t* rows = order.rows();
    for (int64_t j = 0; j < order.n(); ++j) {
      auto& child = ids[static_cast<size_t>(type.child_of[codes[j] & 127])];
      to[j] = static_cast<int32_t>(child.size());
      child.push_back(static_cast<uint32_t>(from[rows[j]]));
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const Order picked = Order::gather(ids[i].data(), static_cast<int64_t>(ids[i].size()));
      take(type.children[i], *in.children[i], 0, picked, *out.children[i]);
    }
  }

  template <class End>
  void runs_of(const Type& type, ArrowArray& in, int64_t base, const Order& order,
               ArrowArray& out) {
    holder_.init(out, order.n(), 0, 2);
    const ArrowArray& in_ends = *in.children[0];
    const Raw<End>* ends = buffer_of<End>(in_ends, 1) + in_ends.offset;
    End* to = holder_.buffer<End>(order.n());
    std::vector<uint32_t> ids;
    for (int64_t j = 0; j < order.n(); ++j) {
      const int64_t row = base + order.rows()[j];
      const auto* end = std::upper_bound(
          ends, ends + in_ends.length, row,
          [](int64_t value, const Raw<End>& run_end) { return value < int64_t{run_end.value}; });
      const uint32_t id = static_cast<uint32_t>(end - ends);
      if (ids.empty() || ids.back() != id) ids.push_back(id);
      to[ids.size() - 1] = static_cast<End>(j + 1);
    }
    const int64_t n_runs = static_cast<int64_t>(ids.size());
    holder_.init(*out.children[0], n_runs, 2, 0);
    out.children[0]->buffers[1] = to;
    take(type.children[1], *in.children[1], 0, Order::gather(ids.data(), n_runs),
         *out.children[1]);
  }

  void runs(const Type& type, ArrowArray& in, int64_t base, const Order& order, ArrowArray& out) {
    switch (type.children[0].width) {
      case 2: return runs_of<int16_t>(type, in, base, order, out);
      case 4: return runs_of<int32_t>(type, in, base, order, out);
      default: return runs_of<int64_t>(type, in, base, order, out);
    }
  }

  Holder& holder_;
  int cpu_;
};

}  // namespace

void Order::make_rows() const {
  inverse_.emplace(*allocator_, n_);
  uint32_t* rows = inverse_->data();
  for (int64_t i = 0; i < n_; ++i) rows[target_[i]] = static_cast<uint32_t>(i);
  rows_ = rows;
}

void take_array(const Type& type, ArrowArray& in, const Order& order, int cpu,
                Allocator& allocator, ArrowArray& out) {
  build_array(allocator, out,
              [&](Holder& holder) { Taker(holder, cpu).take(type, in, 0, order, out); });
}

void take_placed(const Type& type, ArrowArray& in, const Order& order,
                 const std::function<int64_t(int64_t)>& place, int cpu, Allocator& allocator,
                 ArrowArray& out) {
  build_array(allocator, out, [&](Holder& holder) {
    Taker(holder, cpu).take_placed(type, in, order, place, out);
  });
}

}  // namespace fabric
