// Schemas and batches from outside: their types, what their rows come to, and nulls where none may
// be.
#include "flight/strangers.hpp"

#include <arrow/array.h>
#include <arrow/array/data.h>
#include <arrow/extension_type.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "flight/text.hpp"
#include "store/values.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

constexpr int64_t MESSAGE_ROWS_MAX = 1 << 24;
constexpr int COLUMNS_MAX = 4096;
constexpr size_t NAME_CHARS_MAX = 1024;
constexpr int DEPTH_MAX = 64;
constexpr size_t METADATA_BYTES_MAX = 1 << 20;

// How much the rows of a batch come to, once each has its values to itself: counted in time and
// memory of the order of the message. Views, list views, dense unions and runs may name the same
// values again and again, nulls and empty structs have lengths without bytes: a message of a
// kilobyte could keep a kernel busy for years. Offsets must be valid.
constexpr int64_t UNFOLDED_BYTES_MAX = 1 << 30;
constexpr int64_t LENGTH_MAX = 1 << 24;  // of a nested column that has no bytes

// Whether values of this type can be longer than what they are kept in.
bool folds(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::LIST_VIEW:
    case arrow::Type::LARGE_LIST_VIEW:
    case arrow::Type::DENSE_UNION:
    case arrow::Type::RUN_END_ENCODED: return true;
    case arrow::Type::DICTIONARY:
      return folds(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return std::ranges::any_of(type.fields(),
                                 [](const auto& field) { return folds(*field->type()); });
  }
}

// How many bytes the first n values of a column come to, for each n.
class Unfolded {
 public:
  explicit Unfolded(int64_t each = 0) : each_(each) {}

  static arrow::Result<Unfolded> of(const arrow::ArrayData& data) {
    Unfolded sums;
    ARROW_RETURN_NOT_OK(sums.fill(data));
    return sums;
  }

  int64_t between(int64_t begin, int64_t end) const {
    if (sums_.empty()) return (end - begin) * each_;
    return sums_[static_cast<size_t>(end)] - sums_[static_cast<size_t>(begin)];
  }

 private:
  static constexpr int64_t MOST = int64_t{1} << 40;  // so that no sum of few can wrap around

  arrow::Status fill(const arrow::ArrayData& data) {
    switch (data.type->id()) {
      case arrow::Type::STRING:
      case arrow::Type::BINARY: return ranges<int32_t>(data, Unfolded(1));
      case arrow::Type::LARGE_STRING:
      case arrow::Type::LARGE_BINARY: return ranges<int64_t>(data, Unfolded(1));
      case arrow::Type::LIST:
      case arrow::Type::MAP: return children(data, &Unfolded::ranges<int32_t>);
      case arrow::Type::LARGE_LIST: return children(data, &Unfolded::ranges<int64_t>);
      case arrow::Type::LIST_VIEW: return children(data, &Unfolded::windows<int32_t>);
      case arrow::Type::LARGE_LIST_VIEW: return children(data, &Unfolded::windows<int64_t>);
      case arrow::Type::STRING_VIEW:
      case arrow::Type::BINARY_VIEW: return views(data);
      case arrow::Type::FIXED_SIZE_LIST: return children(data, &Unfolded::fixed_lists);
      case arrow::Type::STRUCT:
      case arrow::Type::SPARSE_UNION: return beside(data);
      case arrow::Type::DENSE_UNION: return unions(data);
      case arrow::Type::RUN_END_ENCODED: return runs(data);
      default: break;
    }
    each_ = std::max<int64_t>(1, data.type->byte_width());
    return data.dictionary == nullptr ? arrow::Status::OK() : check(*data.dictionary);
  }

  static arrow::Status check(const arrow::ArrayData& data) {
    ARROW_ASSIGN_OR_RAISE(const Unfolded sums, of(data));
    return sums.between(0, data.length) > UNFOLDED_BYTES_MAX ? too_much() : arrow::Status::OK();
  }

  // `size(i)` bytes for each value.
  template <class SizeOf>
  arrow::Status sum(int64_t n, SizeOf size) {
    sums_.resize(static_cast<size_t>(n) + 1);
    for (int64_t i = 0, total = 0; i < n; ++i) {
      total += size(i);
      if (total > MOST) return too_much();
      sums_[static_cast<size_t>(i) + 1] = total;
    }
    return arrow::Status::OK();
  }

  using Fill = arrow::Status (Unfolded::*)(const arrow::ArrayData&, const Unfolded& values);
  arrow::Status children(const arrow::ArrayData& data, Fill fill) {
    ARROW_ASSIGN_OR_RAISE(const Unfolded values, of(*data.child_data[0]));
    return (this->*fill)(data, values);
  }

  template <class Offset>
  arrow::Status ranges(const arrow::ArrayData& data, const Unfolded& values) {
    const Raw<Offset>* from = values_of<Offset>(data, 1);
    return sum(data.length, [&](int64_t i) {
      return static_cast<int64_t>(sizeof(Offset)) + values.between(from[i], from[i + 1]);
    });
  }

  template <class Offset>
  arrow::Status windows(const arrow::ArrayData& data, const Unfolded& values) {
    const Raw<Offset>* from = values_of<Offset>(data, 1);
    const Raw<Offset>* sizes = values_of<Offset>(data, 2);
    return sum(data.length, [&](int64_t i) {
      return static_cast<int64_t>(2 * sizeof(Offset)) +
             values.between(from[i], int64_t{from[i]} + sizes[i]);
    });
  }

  arrow::Status views(const arrow::ArrayData& data) {
    const Raw<int32_t>* view = values_of<int32_t>(data, 1, 4 * data.offset);
    return sum(data.length, [&](int64_t i) {
      const int32_t size = view[4 * i];
      return 16 + (data.IsValid(i) && size > 12 ? size : 0);
    });
  }

  arrow::Status fixed_lists(const arrow::ArrayData& data, const Unfolded& values) {
    const int64_t width = static_cast<const arrow::FixedSizeListType&>(*data.type).list_size();
    return sum(data.length, [&](int64_t i) {
      const int64_t begin = (data.offset + i) * width;
      return 1 + values.between(begin, begin + width);
    });
  }

  static arrow::Result<std::vector<Unfolded>> of_children(const arrow::ArrayData& data) {
    std::vector<Unfolded> columns;
    for (const auto& child : data.child_data) {
      ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), of(*child));
    }
    return columns;
  }

  arrow::Status beside(const arrow::ArrayData& data) {
    ARROW_ASSIGN_OR_RAISE(const auto columns, of_children(data));
    return sum(data.length, [&](int64_t i) {
      int64_t total = 1;
      for (const Unfolded& column : columns) {
        total += column.between(data.offset + i, data.offset + i + 1);
      }
      return total;
    });
  }

  arrow::Status unions(const arrow::ArrayData& data) {
    ARROW_ASSIGN_OR_RAISE(const auto columns, of_children(data));
    const auto& ids = static_cast<const arrow::UnionType&>(*data.type).child_ids();
    const int8_t* codes = data.GetValues<int8_t>(1);
    const Raw<int32_t>* at = values_of<int32_t>(data, 2);
    return sum(data.length, [&](int64_t i) {
      const auto child = static_cast<size_t>(ids[static_cast<size_t>(codes[i])]);
      return 5 + columns[child].between(at[i], at[i] + 1);
    });
  }

  arrow::Status runs(const arrow::ArrayData& data) {
    ARROW_ASSIGN_OR_RAISE(const Unfolded values, of(*data.child_data[1]));
    return with_run_ends(data, [&](const auto* ends) {
      int64_t run = 0;
      return sum(data.length, [&](int64_t i) {
        while (int64_t{ends[run]} <= data.offset + i) ++run;
        return 1 + values.between(run, run + 1);
      });
    });
  }

  static arrow::Status too_much() {
    return fault("DataError", "the rows of a message come to more than " +
                                  std::to_string(UNFOLDED_BYTES_MAX >> 20) +
                                  " MiB once each has its values to itself; send fewer at once");
  }
  friend arrow::Status check_unfolded(const arrow::RecordBatch& batch);

  int64_t each_;  // without sums
  std::vector<int64_t> sums_;
};

// Bytes of the buffers of `data`; `fits` turns false when a column is much longer than those allow.
int64_t backing(const arrow::ArrayData& data, bool& fits) {
  int64_t n_bytes = 0;
  for (const auto& buffer : data.buffers) n_bytes += buffer == nullptr ? 0 : buffer->size();
  for (const auto& child : data.child_data) n_bytes += backing(*child, fits);
  if (data.dictionary != nullptr) n_bytes += backing(*data.dictionary, fits);
  fits = fits && data.length <= LENGTH_MAX + 8 * n_bytes;
  return n_bytes;
}

arrow::Status check_unfolded(const arrow::RecordBatch& batch) {
  for (const auto& column : batch.column_data()) {
    bool fits = true;
    backing(*column, fits);
    if (!fits) return Unfolded::too_much();
    if (folds(*column->type)) ARROW_RETURN_NOT_OK(Unfolded::check(*column));
  }
  return arrow::Status::OK();
}

// Nulls where a schema allows none, at any depth. A column's own nulls are easy; those inside of
// structs and lists count only where no null around hides them. Dictionaries, unions and runs have
// nulls without a bitmap.
using Seen = std::vector<bool>;  // by row: whether nothing around it is null

bool is_null_at(const arrow::Array& array, int64_t i) {
  if (array.IsNull(i)) return true;
  if (array.type_id() != arrow::Type::DICTIONARY) return false;
  const auto& encoded = static_cast<const arrow::DictionaryArray&>(array);
  return is_null_at(*encoded.dictionary(), encoded.GetValueIndex(i));
}

// Whether a field inside of this type promises to have no nulls.
bool is_strict_inside(const arrow::DataType& type) {
  return std::ranges::any_of(type.fields(), [](const auto& field) {
    return !field->nullable() || is_strict_inside(*field->type());
  });
}

bool keeps_promise(const arrow::Field& field, const arrow::Array& array, const Seen& seen);

bool keeps_promises(const arrow::StructArray& array, const Seen& seen) {
  Seen inside = seen;
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) inside[static_cast<size_t>(i)] = false;
  }
  for (int i = 0; i < array.num_fields(); ++i) {
    if (!keeps_promise(*array.struct_type()->field(i), *array.field(i), inside)) return false;
  }
  return true;
}

// Which values list `i` holds.
std::pair<int64_t, int64_t> range_of(const arrow::FixedSizeListArray& array, int64_t i) {
  return {array.value_offset(i), array.value_offset(i + 1)};
}
template <class List>
std::pair<int64_t, int64_t> range_of(const List& array, int64_t i) {
  const auto* from = values_of<typename List::offset_type>(*array.data(), 1);
  return {from[i], from[i + 1]};
}

template <class List>
bool keeps_promises(const List& array, const Seen& seen) {
  const auto& values = *array.values();
  Seen inside(static_cast<size_t>(values.length()), false);
  for (int64_t i = 0; i < array.length(); ++i) {
    if (!seen[static_cast<size_t>(i)] || array.IsNull(i)) continue;
    const auto [begin, end] = range_of(array, i);
    std::fill(inside.begin() + begin, inside.begin() + end, true);
  }
  return keeps_promise(*array.list_type()->field(0), values, inside);
}

bool keeps_promise(const arrow::Field& field, const arrow::Array& array, const Seen& seen) {
  if (!field.nullable() && array.ComputeLogicalNullCount() > 0) {
    for (int64_t i = 0; i < array.length(); ++i) {
      if (seen[static_cast<size_t>(i)] && is_null_at(array, i)) return false;
    }
  }
  if (!is_strict_inside(*field.type())) return true;
  switch (array.type_id()) {
    case arrow::Type::STRUCT:
      return keeps_promises(static_cast<const arrow::StructArray&>(array), seen);
    case arrow::Type::LIST:
    case arrow::Type::MAP:
      return keeps_promises(static_cast<const arrow::ListArray&>(array), seen);
    case arrow::Type::LARGE_LIST:
      return keeps_promises(static_cast<const arrow::LargeListArray&>(array), seen);
    case arrow::Type::FIXED_SIZE_LIST:
      return keeps_promises(static_cast<const arrow::FixedSizeListArray&>(array), seen);
    default: return true;  // unions, runs and views of lists: nobody relies on what is inside
  }
}

// A DataError when a column holds nulls that `schema` does not allow.
arrow::Status check_nulls(const arrow::RecordBatch& batch, const arrow::Schema& schema) {
  for (int i = 0; i < schema.num_fields(); ++i) {
    const arrow::Field& field = *schema.field(i);
    if (!field.nullable() && batch.column(i)->ComputeLogicalNullCount() > 0) {
      return fault("DataError",
                   "column " + quoted(field.name()) + " is not nullable but holds nulls");
    }
    if (!is_strict_inside(*field.type())) continue;
    const Seen all(static_cast<size_t>(batch.num_rows()), true);
    if (!keeps_promise(field, *batch.column(i), all)) {
      return fault("DataError", "column " + quoted(field.name()) +
                                    " holds nulls inside where its type allows none");
    }
  }
  return arrow::Status::OK();
}

// Refuse types that hold code or nest without end.
arrow::Status check_foreign_type(const arrow::DataType& type, const std::string& name,
                                 int depth = 1) {
  if (depth > DEPTH_MAX) {
    return fault("DataError", "column " + quoted(name) + " nests deeper than " +
                                  std::to_string(DEPTH_MAX) + " levels");
  }
  if (type.id() == arrow::Type::EXTENSION) {
    const auto& extension = static_cast<const arrow::ExtensionType&>(type);
    return fault("DataError", "column " + quoted(name) + " has the extension type " +
                                  extension.extension_name());
  }
  if (type.id() == arrow::Type::DICTIONARY) {
    const auto& values = static_cast<const arrow::DictionaryType&>(type).value_type();
    ARROW_RETURN_NOT_OK(check_foreign_type(*values, name, depth + 1));
  }
  for (const auto& field : type.fields()) {
    ARROW_RETURN_NOT_OK(check_foreign_type(*field->type(), name, depth + 1));
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Status check_foreign_schema(const arrow::Schema& schema) {
  if (schema.num_fields() < 1 || schema.num_fields() > COLUMNS_MAX) {
    return fault("DataError", "a stream has 1 to " + std::to_string(COLUMNS_MAX) +
                                  " columns, this one has " + std::to_string(schema.num_fields()));
  }
  std::set<std::string_view> seen;
  for (const auto& field : schema.fields()) {
    const std::string& name = field->name();
    if (name.empty() || !is_utf8(name) || characters(name) > NAME_CHARS_MAX ||
        name.find('\0') != name.npos) {
      return fault("DataError", "column name " + quoted(is_utf8(name) ? name : "") +
                                    " is not allowed; use 1 to " +
                                    std::to_string(NAME_CHARS_MAX) + " characters");
    }
    if (!seen.insert(name).second) {
      return fault("DataError",
                   "column " + quoted(name) + " is there twice; column names must differ");
    }
    ARROW_RETURN_NOT_OK(check_foreign_type(*field->type(), name));
    if (!is_utf8(field->type()->ToString())) {  // names inside, time zones
      return fault("DataError", "the type of column " + quoted(name) + " is not UTF-8 text");
    }
  }
  size_t n_bytes = 0;
  if (const auto& metadata = schema.metadata()) {
    for (const std::string& key : metadata->keys()) n_bytes += key.size();
    for (const std::string& value : metadata->values()) n_bytes += value.size();
  }
  if (n_bytes <= METADATA_BYTES_MAX) return arrow::Status::OK();
  return fault("DataError", "a schema has at most " + std::to_string(METADATA_BYTES_MAX) +
                                " bytes of metadata");
}

arrow::Status check_foreign_batch(const arrow::RecordBatch& batch, const arrow::Schema& schema) {
  if (batch.num_rows() > MESSAGE_ROWS_MAX) {
    return fault("DataError", "a message has at most " + std::to_string(MESSAGE_ROWS_MAX) +
                                  " rows, this one has " + std::to_string(batch.num_rows()));
  }
  const arrow::Status valid = batch.ValidateFull();
  if (!valid.ok()) {
    return fault("DataError",
                 "a batch of the stream is damaged: " + first_line(valid.message(), 300));
  }
  ARROW_RETURN_NOT_OK(check_unfolded(batch));
  return check_nulls(batch, schema);
}

arrow::Status check_columns(const arrow::Schema& given, const arrow::Schema& expected,
                            const std::string& name) {
  if (given.Equals(expected, false)) return arrow::Status::OK();
  return fault("DataError", "the stream has columns " + columns_text(given) + ", dataset " +
                                quoted(name) + " has " + columns_text(expected));
}

}  // namespace fabric
