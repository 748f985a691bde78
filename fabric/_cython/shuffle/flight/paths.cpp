// Reading descriptors, element by element.
#include "flight/paths.hpp"

#include <arrow/flight/types.h>

#include "flight/text.hpp"
#include "wire/fault.hpp"

namespace fabric {
namespace {

constexpr const char* FORMS =
    "[\"dataset\", name], [\"dataset\", name, transaction, writer, attempt], "
    "[\"job\", job, node path], [\"job\", job, node path, partition] or "
    "[\"state\", job, node path, state name]";
constexpr size_t ELEMENT_CHARS_MAX = 1024;
constexpr size_t ELEMENTS_MAX = 8;
constexpr size_t NUMBERS_MAX = 4096;

// Reads the elements of a path one after the other; the first that is wrong is the answer.
class PathReader {
 public:
  explicit PathReader(const std::vector<std::string>& path) : path_(path) {}

  std::string name(size_t at, const char* what) {
    if (!is_name(path_[at])) {
      fail(std::string(what) + " " + quoted(path_[at]) +
           " is not allowed; use 1 to 128 letters, digits, '.', '-' or '_', beginning with a "
           "letter or digit");
    }
    return path_[at];
  }
  std::string node(size_t at, const char* what = "node path") {
    if (path_[at].empty() || !is_printable(path_[at])) {
      fail(std::string(what) + " " + quoted(path_[at]) + " is not one");
    }
    return path_[at];
  }
  uint32_t number(size_t at, const char* what) {
    const std::string& text = path_[at];
    bool digits = !text.empty() && text.size() <= 9;
    uint32_t value = 0;
    for (const char c : text) {
      digits = digits && c >= '0' && c <= '9';
      value = value * 10 + static_cast<uint32_t>(c - '0');
    }
    if (!digits) fail(std::string(what) + " " + quoted(text) + " is not a number from 0");
    return value;
  }
  const arrow::Status& status() const { return status_; }

 private:
  void fail(const std::string& why) {
    if (status_.ok()) status_ = fault("NotFoundError", why);
  }
  const std::vector<std::string>& path_;
  arrow::Status status_;
};

}  // namespace

bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 128) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!plain && (i == 0 || (c != '.' && c != '-' && c != '_'))) return false;
  }
  return true;
}

arrow::Status check_elements(const std::vector<std::string>& path) {
  const bool exchange = !path.empty() && path[0] == "exchange";
  if (path.empty() || path.size() > (exchange ? NUMBERS_MAX + 4 : ELEMENTS_MAX)) {
    return fault("NotFoundError", "a descriptor of " + std::to_string(path.size()) +
                                      " elements names nothing here; use " + FORMS);
  }
  for (const std::string& element : path) {
    if (!is_utf8(element)) {
      return fault("NotFoundError",
                   std::string("a descriptor's elements are UTF-8 text; use ") + FORMS);
    }
    if (characters(element) > ELEMENT_CHARS_MAX) {
      return fault("NotFoundError", "a descriptor's element has at most " +
                                        std::to_string(ELEMENT_CHARS_MAX) + " characters");
    }
  }
  return arrow::Status::OK();
}

arrow::Result<AnyPath> parse_path(const std::vector<std::string>& path) {
  ARROW_RETURN_NOT_OK(check_elements(path));
  const std::string& kind = path[0];
  const size_t n = path.size();
  PathReader in(path);
  AnyPath found;
  if (kind == "dataset" && n == 2) {
    found = DatasetPath{in.name(1, "dataset name")};
  } else if (kind == "dataset" && (n == 5 || (n == 6 && path[5] == "owner"))) {
    found = PutPath{in.name(1, "dataset name"), in.name(2, "transaction"), in.name(3, "writer"),
                    in.number(4, "attempt"), n == 6};
  } else if (kind == "job" && n == 3) {
    found = JobPath{in.name(1, "job"), in.node(2), std::nullopt};
  } else if (kind == "job" && n == 4) {
    found = JobPath{in.name(1, "job"), in.node(2), in.number(3, "partition")};
  } else if (kind == "state" && n == 4) {
    found = StatePath{in.name(1, "job"), in.node(2), in.node(3, "state name")};
  } else if (kind == "exchange" && n > 4) {
    ExchangePath exchange{in.name(1, "job"), in.node(2), in.number(3, "edge"), {}};
    for (size_t at = 4; at < n; ++at) exchange.numbers.push_back(in.number(at, "number"));
    found = std::move(exchange);
  } else {
    std::string shown;
    for (const std::string& element : path) {
      shown += (shown.empty() ? "[" : ", ") + quoted(element);
    }
    return fault("NotFoundError", "descriptor " + shown + "] names nothing here; use " + FORMS);
  }
  ARROW_RETURN_NOT_OK(in.status());
  return found;
}

arrow::Result<AnyPath> path_of(const fl::FlightDescriptor& descriptor) {
  if (descriptor.type != fl::FlightDescriptor::PATH) {
    return fault("NotFoundError",
                 std::string("commands are not understood here; use a path: ") + FORMS);
  }
  return parse_path(descriptor.path);
}

}  // namespace fabric
