// The walk over an array's layout that counts its bytes, and what is copied of a batch.
#include "store/size.hpp"

#include <arrow/array/array_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <typeinfo>

#include "arrays.hpp"
#include "cpu.hpp"
#include "store/values.hpp"
#include "take.hpp"

namespace fabric {
namespace {

class Measure {
 public:
  explicit Measure(Size& size) : size_(size) {}

  // Rows [row, row + n) of `data`, counted from its own offset.
  void add(const arrow::ArrayData& data, int64_t row, int64_t n) {
    if (n > 0) add(data, stored_type(*data.type), row + data.offset, n);
  }

 private:
  // From here on `row` counts from the start of the buffers.
  void add(const arrow::ArrayData& data, const arrow::DataType& type, int64_t row, int64_t n) {
    // A bitmap counts when it says something: the wire drops others.
    if (data.buffers[0] != nullptr &&
        arrow::internal::CountSetBits(data.buffers[0]->data(), row, n) < n) {
      size_.body += arrow::bit_util::BytesForBits(n);
    }
    switch (type.id()) {
      case arrow::Type::NA: return;
      case arrow::Type::STRING:
      case arrow::Type::BINARY: return texts<int32_t>(data, row, n);
      case arrow::Type::LARGE_STRING:
      case arrow::Type::LARGE_BINARY: return texts<int64_t>(data, row, n);
      case arrow::Type::STRING_VIEW:
      case arrow::Type::BINARY_VIEW: return views(data, row, n);
      case arrow::Type::LIST:
      case arrow::Type::MAP: return lists<int32_t>(data, row, n);
      case arrow::Type::LARGE_LIST: return lists<int64_t>(data, row, n);
      case arrow::Type::LIST_VIEW: return list_views<int32_t>(data, row, n);
      case arrow::Type::LARGE_LIST_VIEW: return list_views<int64_t>(data, row, n);
      case arrow::Type::FIXED_SIZE_LIST: {
        const int64_t width = static_cast<const arrow::FixedSizeListType&>(type).list_size();
        return add(*data.child_data[0], row * width, n * width);
      }
      case arrow::Type::SPARSE_UNION: size_.body += n; [[fallthrough]];
      case arrow::Type::STRUCT:
        for (const auto& child : data.child_data) add(*child, row, n);
        return;
      case arrow::Type::DENSE_UNION:
        return unions(data, static_cast<const arrow::UnionType&>(type), row, n);
      case arrow::Type::RUN_END_ENCODED: return runs(data, row, n);
      case arrow::Type::DICTIONARY: return dictionary(data, type, n);
      default:
        size_.body += arrow::bit_util::BytesForBits(n * type.bit_width());
    }
  }

  template <class Offset>
  void texts(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const Raw<Offset>* from = values_of<Offset>(data, 1, row);
    size_.body += n * static_cast<int64_t>(sizeof(Offset)) + from[n] - from[0];
  }

  void views(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const uint8_t* valid = data.buffers[0] == nullptr ? nullptr : data.buffers[0]->data();
    const Raw<int32_t>* view = values_of<int32_t>(data, 1, 4 * row);
    size_.body += n * 16;
    for (int64_t i = 0; i < n; ++i) {
      const bool there = valid == nullptr || arrow::bit_util::GetBit(valid, row + i);
      if (there && view[4 * i] > 12) size_.body += view[4 * i];
    }
  }

  template <class Offset>
  void lists(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const Raw<Offset>* from = values_of<Offset>(data, 1, row);
    size_.body += n * static_cast<int64_t>(sizeof(Offset));
    add(*data.child_data[0], from[0], from[n] - from[0]);
  }

  template <class Offset>
  void list_views(const arrow::ArrayData& data, int64_t row, int64_t n) {
    const Raw<Offset>* from = values_of<Offset>(data, 1, row);
    const Raw<Offset>* sizes = values_of<Offset>(data, 2, row);
    int64_t first = std::numeric_limits<int64_t>::max(), last = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (sizes[i] == 0) continue;
      first = std::min<int64_t>(first, from[i]);
      last = std::max<int64_t>(last, int64_t{from[i]} + sizes[i]);
    }
    size_.body += 2 * n * static_cast<int64_t>(sizeof(Offset));
    if (first < last) add(*data.child_data[0], first, last - first);
  }

  void unions(const arrow::ArrayData& data, const arrow::UnionType& type, int64_t row, int64_t n) {
    const int8_t* codes = data.GetValues<int8_t>(1, row);
    const Raw<int32_t>* from = values_of<int32_t>(data, 2, row);
    size_.body += n * 5;
    std::vector<std::pair<int64_t, int64_t>> used(data.child_data.size(), {-1, -1});
    for (int64_t i = 0; i < n; ++i) {
      auto& [first, last] = used[static_cast<size_t>(type.child_ids()[codes[i]])];
      first = first < 0 ? from[i] : std::min<int64_t>(first, from[i]);
      last = std::max<int64_t>(last, from[i]);
    }
    for (size_t i = 0; i < used.size(); ++i) {
      const auto [first, last] = used[i];
      if (first >= 0) add(*data.child_data[i], first, last - first + 1);
    }
  }

  void runs(const arrow::ArrayData& data, int64_t row, int64_t n) {
    with_run_ends(data, [&](const auto* ends) {
      const int64_t length = data.child_data[0]->length;
      const int64_t first = std::upper_bound(ends, ends + length, row) - ends;
      const int64_t last = std::lower_bound(ends + first, ends + length, row + n) - ends;
      size_.body += (last - first + 1) * static_cast<int64_t>(sizeof *ends);
      add(*data.child_data[1], first, last - first + 1);
    });
  }

  void dictionary(const arrow::ArrayData& data, const arrow::DataType& type, int64_t n) {
    const auto& index = static_cast<const arrow::DictionaryType&>(type).index_type();
    size_.body += n * index->byte_width();
    const Size values = size_of(*data.dictionary, 0, data.dictionary->length);
    size_.add_dictionary({data.dictionary.get(), values.body});
    for (const Size::Dictionary& inner : values.dictionaries) size_.add_dictionary(inner);
  }

  Size& size_;
};

class Compactor {
 public:
  using Data = std::shared_ptr<arrow::ArrayData>;

  static bool may_help(const arrow::DataType& of) {
    const arrow::DataType& type = stored_type(of);
    if (is_view(type) || type.id() == arrow::Type::DICTIONARY) return true;
    if (type.id() == arrow::Type::LIST_VIEW || type.id() == arrow::Type::LARGE_LIST_VIEW) {
      return true;
    }
    return std::any_of(type.fields().begin(), type.fields().end(),
                       [](const auto& field) { return may_help(*field->type()); });
  }

  static arrow::Result<Data> compact(const Data& data) {
    const arrow::DataType& type = *data->type;
    if (!may_help(type)) return data;
    if (is_view(type)) return views(data);
    if (type.id() == arrow::Type::DICTIONARY) return dictionary(data);
    auto own = std::make_shared<arrow::ArrayData>(*data);
    for (auto& child : own->child_data) {
      ARROW_ASSIGN_OR_RAISE(child, compact(child));
    }
    if (own->dictionary != nullptr) return dictionary(own);  // under an extension type
    return own->child_data.empty() ? views(own) : own;
  }

 private:
  using View = std::array<int32_t, 4>;  // size; then 12 bytes, or a prefix, buffer and place
  static constexpr int64_t WASTE_BYTES_MIN = 1 << 10;  // less is not worth a copy

  static bool is_view(const arrow::DataType& type) { return arrow::is_binary_view_like(type.id()); }
  static bool is_waste(int64_t held, int64_t needed) {
    return held > needed + std::max(needed / 4, WASTE_BYTES_MIN);
  }

  static arrow::Result<Data> views(const Data& data) {
    const uint8_t* valid = data->buffers[0] == nullptr ? nullptr : data->buffers[0]->data();
    const Raw<int32_t>* from = values_of<int32_t>(*data, 1, 4 * data->offset);
    const auto is_beside = [&](int64_t i) {
      return from[4 * i] > 12 && (!valid || arrow::bit_util::GetBit(valid, data->offset + i));
    };
    int64_t needed = 0, held = 0;
    for (int64_t i = 0; i < data->length; ++i) needed += is_beside(i) ? int32_t{from[4 * i]} : 0;
    for (size_t b = 2; b < data->buffers.size(); ++b) held += data->buffers[b]->size();
    // A place in a buffer has 31 bits.
    if (!is_waste(held, needed) || needed > std::numeric_limits<int32_t>::max()) return data;
    const int64_t end = data->offset + data->length;
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> made, arrow::AllocateBuffer(end * 16));
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> bytes, arrow::AllocateBuffer(needed));
    std::memset(made->mutable_data(), 0, static_cast<size_t>(data->offset * 16));
    View* to = made->mutable_data_as<View>() + data->offset;
    int32_t place = 0;
    for (int64_t i = 0; i < data->length; ++i) {
      std::memcpy(&to[i], from + 4 * i, sizeof(View));
      if (is_beside(i)) {
        const auto& source = data->buffers[static_cast<size_t>(2 + to[i][2])];
        std::memcpy(bytes->mutable_data() + place, source->data() + to[i][3],
                    static_cast<size_t>(to[i][0]));
        to[i][2] = 0;
        to[i][3] = place;
        place += to[i][0];
      } else if (to[i][0] > 12) {
        to[i] = View{};  // under a null: it must not point anywhere
      }
    }
    auto own = std::make_shared<arrow::ArrayData>(*data);
    own->buffers = {data->buffers[0], std::move(made)};
    if (needed > 0) own->buffers.push_back(std::move(bytes));
    return own;
  }

  // With those entries that a row has, in their order.
  static arrow::Result<Data> dictionary(const Data& data) {
    const int64_t n_entries = data->dictionary->length;
    if (n_entries <= data->length || n_entries >> 32) return data;
    const int64_t held = size_of(*data->dictionary, 0, n_entries).total();
    if (!is_waste(held, held / n_entries * data->length)) return data;
    const auto& type = static_cast<const arrow::DictionaryType&>(stored_type(*data->type));
    switch (type.index_type()->bit_width()) {
      case 8: return narrowed<uint8_t>(data);
      case 16: return narrowed<uint16_t>(data);
      case 32: return narrowed<uint32_t>(data);
      default: return narrowed<uint64_t>(data);
    }
  }

  template <class Index>
  static arrow::Result<Data> narrowed(const Data& data) {
    const uint8_t* valid = data->buffers[0] == nullptr ? nullptr : data->buffers[0]->data();
    const Raw<Index>* from = values_of<Index>(*data, 1);
    const auto is_there = [&](int64_t i) {
      return !valid || arrow::bit_util::GetBit(valid, data->offset + i);
    };
    std::vector<uint32_t> entries;
    for (int64_t i = 0; i < data->length; ++i) {
      if (is_there(i)) entries.push_back(static_cast<uint32_t>(from[i]));
    }
    std::sort(entries.begin(), entries.end());
    entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
    const int64_t end = data->offset + data->length;
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> made,
                          arrow::AllocateBuffer(end * static_cast<int64_t>(sizeof(Index))));
    std::memset(made->mutable_data(), 0, static_cast<size_t>(made->size()));
    Index* to = made->mutable_data_as<Index>() + data->offset;
    for (int64_t i = 0; i < data->length; ++i) {
      if (!is_there(i)) continue;
      const auto at = std::lower_bound(entries.begin(), entries.end(),
                                       static_cast<uint32_t>(from[i]));
      to[i] = static_cast<Index>(at - entries.begin());
    }
    auto own = std::make_shared<arrow::ArrayData>(*data);
    own->buffers[1] = std::move(made);
    ARROW_ASSIGN_OR_RAISE(own->dictionary, taken(data->dictionary, entries));
    return own;
  }

  // Some rows of an array; Arrow's own function for that does not know views.
  static arrow::Result<Data> taken(const Data& data, const std::vector<uint32_t>& rows) {
    ArrowArray in{}, out{};
    ArrowSchema schema{};
    ARROW_RETURN_NOT_OK(arrow::ExportArray(*arrow::MakeArray(data), &in, &schema));
    arrow::Status failed;
    try {
      take_array(parse_type(schema), in,
                 Order::gather(rows.data(), static_cast<int64_t>(rows.size())), CPU_SCALAR,
                 system_allocator(), out);
    } catch (const std::exception& error) {
      failed = arrow::Status::Invalid(error.what());
    }
    schema.release(&schema);
    if (in.release != nullptr) in.release(&in);
    ARROW_RETURN_NOT_OK(failed);
    ARROW_ASSIGN_OR_RAISE(auto made, arrow::ImportArray(&out, data->type));
    return made->data();
  }
};

bool python_owns_some(const arrow::ArrayData& data) {
  for (const auto& buffer : data.buffers) {
    if (python_owns(buffer.get())) return true;
  }
  for (const auto& child : data.child_data) {
    if (python_owns_some(*child)) return true;
  }
  return data.dictionary != nullptr && python_owns_some(*data.dictionary);
}

// Copy every buffer that Python owns, whole.
arrow::Result<std::shared_ptr<arrow::ArrayData>> with_own_buffers(
    const arrow::ArrayData& data) {
  auto own = std::make_shared<arrow::ArrayData>(data);
  for (auto& buffer : own->buffers) {
    if (!python_owns(buffer.get())) continue;
    ARROW_ASSIGN_OR_RAISE(buffer, buffer->CopySlice(0, buffer->size()));
  }
  for (auto& child : own->child_data) {
    ARROW_ASSIGN_OR_RAISE(child, with_own_buffers(*child));
  }
  if (own->dictionary != nullptr) {
    ARROW_ASSIGN_OR_RAISE(own->dictionary, with_own_buffers(*own->dictionary));
  }
  return own;
}

}  // namespace

bool python_owns(const arrow::Buffer* buffer) {
  for (; buffer != nullptr; buffer = buffer->parent().get()) {
    if (std::string_view(typeid(*buffer).name()).starts_with("N5arrow2py")) return true;
  }
  return false;
}

Size size_of(const arrow::ArrayData& data, int64_t row, int64_t n) {
  Size size;
  Measure(size).add(data, row, n);
  return size;
}

Size size_of(const arrow::RecordBatch& batch, int64_t row, int64_t n) {
  Size size;
  Measure measure(size);
  for (int i = 0; i < batch.num_columns(); ++i) measure.add(*batch.column_data(i), row, n);
  return size;
}

int64_t bytes_of_batch(const arrow::RecordBatch& batch) {
  return size_of(batch, 0, batch.num_rows()).total();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> compacted(
    std::shared_ptr<arrow::RecordBatch> batch, bool is_copy) {
  for (int i = 0; i < batch->num_columns(); ++i) {
    const auto column = batch->column_data(i);
    if (!Compactor::may_help(*column->type)) continue;
    auto rows = column;
    if (!is_copy && !column->child_data.empty()) {
      ARROW_ASSIGN_OR_RAISE(auto copied, arrow::Concatenate({batch->column(i)}));
      rows = copied->data();
    }
    ARROW_ASSIGN_OR_RAISE(rows, Compactor::compact(rows));
    if (rows == column) continue;
    ARROW_ASSIGN_OR_RAISE(batch, batch->SetColumn(i, batch->schema()->field(i),
                                                  arrow::MakeArray(std::move(rows))));
  }
  return batch;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> owned(
    std::shared_ptr<arrow::RecordBatch> batch) {
  for (int i = 0; i < batch->num_columns(); ++i) {
    if (!python_owns_some(*batch->column_data(i))) continue;
    // Concatenating copies the rows of a slice alone; what it shares (dictionaries, the bytes
    // behind views) is copied whole.
    ARROW_ASSIGN_OR_RAISE(auto column, arrow::Concatenate({batch->column(i)}));
    ARROW_ASSIGN_OR_RAISE(auto data, with_own_buffers(*column->data()));
    ARROW_ASSIGN_OR_RAISE(batch, batch->SetColumn(i, batch->schema()->field(i),
                                                  arrow::MakeArray(std::move(data))));
  }
  return batch;
}

}  // namespace fabric
