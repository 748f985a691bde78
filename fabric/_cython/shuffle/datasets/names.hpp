// Names that may become a part of a path: what `fabric/ids.py` lets pass.
//
// One job: the same check, with the same words.
#pragma once
#include "flight/paths.hpp"

namespace fabric {

// Fine when `name` is safe in a path and a descriptor, else an error of `kind`.
inline arrow::Status check_name(std::string_view name, const std::string& what,
                                std::string_view kind = "ConfigError") {
  if (is_name(name)) return arrow::Status::OK();
  return fault(kind, what + " " + quoted(name) + " is not allowed; use 1 to 128 letters, digits, "
                     "'.', '-' or '_', beginning with a letter or digit");
}

}  // namespace fabric
