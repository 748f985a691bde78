// Avro: rows to columns by a program that was resolved before, and columns to rows.
//
// One job: run the nodes of `fabric/io/codecs/avro_nodes.py` over bytes that nobody vouches for.
// Every read is checked against the end of the row; a count of items against what the rest of the
// row can hold; items without bytes and levels of nesting against limits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codecs/codec.hpp"
#include "codecs/framed.hpp"
#include "codecs/integers.hpp"
#include "codecs/rows.hpp"

namespace fabric::codecs {

constexpr int64_t EMPTY_ITEMS_MAX = 1 << 16;  // in one row: items that take no bytes
constexpr int AVRO_DEPTH_MAX = 500;           // nodes; 100 levels of a schema are fewer

enum class AvroOp : uint8_t {  // the same as Op in avro_nodes.py
  null, boolean, int_, long_, float_, double_, bytes, fixed, decimal, duration, enum_, array, map,
  union_, record, member, default_, fail,
  int32, int64,  // int_ and long_ whose column takes the number as it is
};

struct AvroNode {
  AvroOp op = AvroOp::null;
  Kind kind = Kind::null;
  int32_t column_id = -1;    // depth first; -1: none
  Column* column = nullptr;  // decoders: nullptr is skip
  int64_t a = 0, b = 0;
  std::vector<int32_t> children;
  Int256 most{};  // decimal: the largest value of the column
};

struct AvroProgram {
  std::vector<AvroNode> nodes;
  std::vector<std::string> texts;
  int32_t root = 0;
};

class AvroDecoder final : public Decoder {
 public:
  // A `lookup` means that rows have a registry's header.
  AvroDecoder(const ArrowSchema& schema, Lookup lookup);

  // Read rows with this header ("" without) by `program`, whose nodes name columns by number;
  // throws std::invalid_argument when a number, text or node is out of range.
  void put(std::string header, AvroProgram program);

 protected:
  bool decode(const Span& value, std::string& reason) override;

 private:
  struct Row {
    const uint8_t *begin, *at, *end;
    int64_t n_empty;  // items without bytes so far
    int depth;
    std::string& reason;

    int64_t left() const { return end - at; }
    bool wrong(const char* what);
    bool number(uint64_t& out, const char* what);
    bool integer(int64_t& out, const char* what);
    bool bytes(int64_t n, const uint8_t*& out, const char* what);
    bool sized(const uint8_t*& out, int64_t& size, const char* what);
  };

  bool run(const AvroProgram& program, int32_t node_id, Row& row);
  bool branch(const AvroProgram& program, const AvroNode& node, Row& row);
  bool scalar(const AvroProgram& program, const AvroNode& node, Row& row);
  bool items(const AvroProgram& program, const AvroNode& node, Row& row);
  bool member(const AvroProgram& program, const AvroNode& node, Row& row);
  bool decimal(const AvroNode& node, Row& row);

  Framed<AvroProgram> framed_;
  std::vector<Column*> numbered_;
};

// Columns to rows. The nodes are of the same kinds, seen from the other side: a union has one
// child, a = the branch of null or -1, b = the child's; a member's children are pairs of a branch
// and the node that writes it, in the order of the struct's fields; a default's text is written.
class AvroEncoder final : public Encoder {
 public:
  // Each value begins with `header`.
  AvroEncoder(const ArrowSchema& schema, AvroProgram program, std::string header);
  ~AvroEncoder() override;

  void encode(const ArrowArray& rows, Values& out) override;

 private:
  void write(int32_t node_id, int64_t i, Bytes& out) const;
  void write_scalar(const AvroNode& node, const Source& source, int64_t i, Bytes& out) const;
  void write_integer(const AvroNode& node, const Source& source, int64_t i, Bytes& out) const;
  void write_decimal(const AvroNode& node, const Source& source, int64_t i, Bytes& out) const;
  void write_symbol(const AvroNode& node, const Source& source, int64_t i, Bytes& out) const;
  void write_items(const AvroNode& node, const Source& source, int64_t i, Bytes& out) const;
  void write_member(const AvroNode& node, int64_t i, Bytes& out) const;
  [[noreturn]] void refuse(const AvroNode& node, const std::string& what) const;

  Rows rows_;
  AvroProgram program_;
  std::vector<std::unordered_map<std::string_view, int64_t>> symbols_;  // per node
  std::string header_;
  int64_t row_ = 0;
};

}  // namespace fabric::codecs
