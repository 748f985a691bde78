// What comes in on the streams of a server, seen before Arrow reads it.
//
// One job: refuse a batch that would unfold to more than a limit. Flight shows the body of each
// message to the server's memory manager; the body is a slice of the whole message, which has the
// rest. A batch may come with any number of dictionaries, so what is left is counted for each
// thread that reads a stream, from batch to batch.
#pragma once
#include <arrow/buffer.h>
#include <arrow/device.h>
#include <arrow/memory_pool.h>

#include <map>
#include <mutex>
#include <thread>

#include "flight/unpacked.hpp"
#include "wire/proto.hpp"

namespace fabric {

class Intake : public arrow::CPUMemoryManager {
 public:
  explicit Intake(int64_t most)
      : CPUMemoryManager(arrow::CPUDevice::Instance(), arrow::default_memory_pool()), most_(most) {}

  // One stream, from the thread that reads it.
  class Reading {
   public:
    explicit Reading(Intake& intake) : intake_(intake) {}
    Reading(const Reading&) = delete;
    ~Reading() {
      const std::lock_guard held(intake_.mutex_);
      intake_.left_.erase(std::this_thread::get_id());
    }
    // Before each batch.
    void next() {
      const std::lock_guard held(intake_.mutex_);
      intake_.left_[std::this_thread::get_id()] = intake_.most_;
    }

   private:
    Intake& intake_;
  };

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
  arrow::Result<BufferPtr> seen(const BufferPtr& body) {
    if (body->size() > 0) {
      if (body->parent() == nullptr) return damaged();
      ARROW_ASSIGN_OR_RAISE(const int64_t bytes, unpacked_bytes(*body->parent(), *body));
      ARROW_RETURN_NOT_OK(spend(bytes));
    }
    return body;
  }

  // The fields are read as Flight reads them: the last one of a kind counts.
  static arrow::Result<int64_t> unpacked_bytes(const arrow::Buffer& whole,
                                               const arrow::Buffer& body) {
    constexpr uint32_t HEADER = 2, BODY = 1000;  // of FlightData
    std::string_view header, found;
    ProtoReader in{std::string_view(whole)};
    while (in.next()) {
      switch (in.field()) {
        case 1:
        case 3: (void)in.bytes(); break;
        case HEADER: header = in.bytes(); break;
        case BODY: found = in.bytes(); break;
        default: break;
      }
    }
    const auto* data = reinterpret_cast<const char*>(body.data());
    if (!in.ok() || found.data() != data || found.size() != static_cast<size_t>(body.size())) {
      return damaged();
    }
    return PackedMessage(header, found).unpacked_bytes();
  }

  arrow::Status spend(int64_t bytes) {
    const std::lock_guard held(mutex_);
    const auto turn = left_.find(std::this_thread::get_id());
    int64_t left = turn == left_.end() ? most_ : turn->second;
    left -= std::min(bytes, left + 1);
    if (turn != left_.end()) turn->second = left;
    if (left >= 0) return arrow::Status::OK();
    return fault("DataError", "the rows of a message come to more than " +
                                  std::to_string(most_ >> 20) +
                                  " MiB once they are decompressed; send smaller batches");
  }

  static arrow::Status damaged() {
    return fault("DataError", "a message of the stream is damaged: it is no FlightData");
  }

  const int64_t most_;
  std::mutex mutex_;
  std::map<std::thread::id, int64_t> left_;
};

}  // namespace fabric
