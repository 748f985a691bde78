// What comes in on the streams of a server, seen before Arrow reads it.
//
// One job: refuse what would unfold to more than a limit. gRPC shows each message of a put to an
// interceptor of that call. A batch holds all dictionaries of its stream, so they count with it.
#pragma once
#include <arrow/flight/transport.h>

#include <map>
#include <string_view>

#include "flight/grpc_abi.hpp"
#include "flight/intake.hpp"
#include "wire/unpacked.hpp"

namespace fabric {

// One stream.
class Inspection : public GrpcInterceptor {
 public:
  explicit Inspection(int64_t most) : most_(most) {}

  void intercept(GrpcStep* step) override {
    if (step->is(GrpcStep::MESSAGE_RECEIVED)) {
      auto* message = static_cast<arrow::flight::internal::FlightData*>(step->received());
      const arrow::Status seen = message == nullptr ? arrow::Status::OK() : look(*message);
      if (!seen.ok()) message->body = std::make_shared<RefusedBody>(seen);
    }
    step->proceed();
  }

 private:
  static constexpr int64_t METADATA_FACTOR = 8;  // what Arrow makes of a buffer's description

  arrow::Status look(const arrow::flight::internal::FlightData& message) {
    if (message.metadata == nullptr) return arrow::Status::OK();  // it has no rows
    const std::string_view metadata(*message.metadata);
    PackedMessage packed(metadata, text(message.body));
    ARROW_RETURN_NOT_OK(packed.check_metadata());
    ARROW_ASSIGN_OR_RAISE(int64_t bytes, packed.unpacked_bytes());
    bytes += METADATA_FACTOR * static_cast<int64_t>(metadata.size());
    if (packed.kind() != PackedMessage::Kind::DICTIONARY) return spend(bytes);
    int64_t& held = dictionaries_[packed.dictionary()];
    dictionary_bytes_ -= packed.is_delta() ? 0 : held;
    held = (packed.is_delta() ? held : 0) + bytes;
    dictionary_bytes_ += bytes;
    return spend(0);
  }

  static std::string_view text(const std::shared_ptr<arrow::Buffer>& body) {
    return body == nullptr ? std::string_view() : std::string_view(*body);
  }

  arrow::Status spend(int64_t bytes) const {
    if (dictionary_bytes_ <= most_ && bytes <= most_ - dictionary_bytes_) {
      return arrow::Status::OK();
    }
    return fault("DataError", "the rows of a message come to more than " +
                                  std::to_string(most_ >> 20) +
                                  " MiB once they are decompressed; send smaller batches");
  }

  const int64_t most_;
  std::map<int64_t, int64_t> dictionaries_;  // the bytes of each
  int64_t dictionary_bytes_ = 0;
};

class Inspectors : public GrpcInterceptors {
 public:
  explicit Inspectors(int64_t most) : most_(most) {}

  GrpcInterceptor* make(GrpcCall* call) override {
    const std::string_view method(call->method);
    const bool comes_in = method.ends_with("/DoPut") || method.ends_with("/DoExchange");
    return comes_in ? new Inspection(most_) : nullptr;
  }

 private:
  const int64_t most_;
};

}  // namespace fabric
