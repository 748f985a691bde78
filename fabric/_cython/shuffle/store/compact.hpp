// Batches that hold their own rows' bytes and no others, at any depth.
//
// One job: a slice of views refers to all bytes of its batch, and a dictionary comes whole with any
// of its rows; each of a thousand slices would carry them all. What a quarter or less of is waste
// stays as it is.
#pragma once
#include <arrow/array/array_base.h>
#include <arrow/array/concatenate.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/c/bridge.h>
#include <arrow/extension_type.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>
#include <arrow/util/bit_util.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>

#include "store/size.hpp"
#include "take_column.hpp"

namespace fabric {

class Compactor {
 public:
  using Data = std::shared_ptr<arrow::ArrayData>;

  static bool may_help(const arrow::DataType& type) {
    if (type.id() == arrow::Type::EXTENSION) {
      return may_help(*static_cast<const arrow::ExtensionType&>(type).storage_type());
    }
    if (is_view(type) || type.id() == arrow::Type::DICTIONARY) return true;
    if (type.id() == arrow::Type::LIST_VIEW || type.id() == arrow::Type::LARGE_LIST_VIEW) {
      return true;
    }
    for (const auto& field : type.fields()) {
      if (may_help(*field->type())) return true;
    }
    return false;
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
    Size size;
    Measure(size).add(*data->dictionary, 0, n_entries);
    const int64_t held = size.total();
    if (!is_waste(held, held / n_entries * data->length)) return data;
    const arrow::DataType* type = data->type.get();
    if (type->id() == arrow::Type::EXTENSION) {
      type = static_cast<const arrow::ExtensionType*>(type)->storage_type().get();
    }
    switch (static_cast<const arrow::DictionaryType*>(type)->index_type()->bit_width()) {
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

// The same rows with nothing beside them; `batch` itself when there is little to gain. Lists may
// refer to more than their rows, so nested columns are copied first, unless they are copies.
inline arrow::Result<std::shared_ptr<arrow::RecordBatch>> compacted(
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

}  // namespace fabric
