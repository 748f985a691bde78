// An output stream that keeps what is written: buffers that are there already stay where they are.
#pragma once
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <memory>
#include <string>
#include <vector>

namespace fabric {

class Gathering : public arrow::io::OutputStream {
 public:
  arrow::Status Write(const void* data, int64_t n) override {
    return Write(arrow::Buffer::FromString(
        std::string(static_cast<const char*>(data), static_cast<size_t>(n))));
  }
  arrow::Status Write(const std::shared_ptr<arrow::Buffer>& data) override {
    if (data->size() > 0) pieces_.push_back(data);
    position_ += data->size();
    return arrow::Status::OK();
  }
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return position_; }

 protected:
  std::vector<std::shared_ptr<arrow::Buffer>> pieces_;
  int64_t position_ = 0;
};

}  // namespace fabric
