// The word about a message that was refused before Arrow read it.
//
// One job: bring it to who reads the stream. Flight shows the body of every message to the server's
// memory manager; what was refused has another in its place, whose answer is why.
#pragma once
#include <arrow/buffer.h>
#include <arrow/device.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>

namespace fabric {

class RefusedBody : public arrow::Buffer {
 public:
  explicit RefusedBody(arrow::Status why) : Buffer(nullptr, 0), why(std::move(why)) {}

  const arrow::Status why;
};

class Intake : public arrow::CPUMemoryManager {
 public:
  Intake() : CPUMemoryManager(arrow::CPUDevice::Instance(), arrow::default_memory_pool()) {}

 protected:
  using BufferPtr = std::shared_ptr<arrow::Buffer>;
  using From = std::shared_ptr<arrow::MemoryManager>;

  arrow::Result<BufferPtr> ViewBufferFrom(const BufferPtr& body, const From&) override {
    return seen(body);
  }
  // Asked when a view was refused: the answer is the same.
  arrow::Result<BufferPtr> CopyBufferFrom(const BufferPtr& body, const From&) override {
    return seen(body);
  }

 private:
  static arrow::Result<BufferPtr> seen(const BufferPtr& body) {
    const auto* refused = dynamic_cast<const RefusedBody*>(body.get());
    if (refused != nullptr) return refused->why;
    return body;
  }
};

}  // namespace fabric
