// Flight descriptors: the paths by which any client names a stream.
//
// One job: parse, with the answers of `fabric/flight/descriptor.py`. The arity is fixed; no name is
// ever used as a file path before `check_name` let it pass.
#pragma once
#include <arrow/flight/type_fwd.h>
#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fabric {

namespace fl = arrow::flight;

struct DatasetPath {
  std::string name;
};

// One attempt of one writer within a transaction; a plain put (append) has no transaction.
struct PutPath {
  std::string name, transaction, writer;
  uint32_t attempt = 0;
  bool to_owner = false;  // its rows were split already
};

struct JobPath {
  std::string job, node_path;
  std::optional<uint32_t> partition;
};

struct StatePath {
  std::string job, node_path, state;
};

// ["exchange", job, node path, edge, number, number, …]: agents among themselves (`request.hpp`).
struct ExchangePath {
  std::string job, node_path;
  uint32_t edge = 0;
  std::vector<uint32_t> numbers;
};

using AnyPath = std::variant<DatasetPath, PutPath, JobPath, StatePath, ExchangePath>;

// Letters, digits, '.', '-' and '_', beginning with a letter or digit; at most 128.
bool is_name(std::string_view text);

// Whether a path has a number of elements that one may have, of text that is not too long.
arrow::Status check_elements(const std::vector<std::string>& path);

arrow::Result<AnyPath> parse_path(const std::vector<std::string>& path);

// The parsed path of a descriptor; a command is none.
arrow::Result<AnyPath> path_of(const fl::FlightDescriptor& descriptor);

}  // namespace fabric
