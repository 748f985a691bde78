// The limits of a server as gRPC takes them, and the shapes that they go into.
//
// One job: each number to the argument or setting that stands for it, and messages counted before
// they are unfolded. A batch holds all dictionaries of its stream, so they count with it.
//
// What gRPC's public headers make part of every caller is declared here again, and nowhere else:
// gRPC is hidden inside the wheel's library and its headers are not shipped; Flight's builder hook
// hands its `ServerBuilder` out all the same. A wheel with another gRPC is refused when the server
// is imported (`version.cpp`). What Flight has put into a builder is known, too, and
// `GrpcBuilder::known` looks at it first: a wheel that was built otherwise is refused in words.
#include "grpc/abi.hpp"

#include <arrow/buffer.h>
#include <arrow/device.h>
#include <arrow/flight/transport.h>
#include <arrow/memory_pool.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/admission.hpp"
#include "wire/fault.hpp"
#include "wire/unpacked.hpp"

namespace fabric {

// The shapes are in no unnamed namespace: their objects come from elsewhere, and a compiler that
// sees nobody derive from a class takes its virtual calls for unreachable.
struct GrpcArgument {
  int type;
  char* key;
  union {
    char* text;
    int number;
    struct {
      void* object;
      const void* table;
    } pointer;
  } value;
};

struct GrpcArguments {
  static constexpr int NUMBER = 1;

  void set(const std::string& key, int number) {
    keys.push_back(key);
    GrpcArgument argument{};
    argument.type = NUMBER;
    argument.key = keys.back().data();
    argument.value.number = number;
    arguments.push_back(argument);
  }

  std::vector<GrpcArgument> arguments;
  std::list<std::string> keys;  // in the order of the arguments
};

class GrpcOption {
 public:
  virtual ~GrpcOption() = default;
  virtual void change_arguments(GrpcArguments* arguments) = 0;
  virtual void change_plugins(void*) {}
};

// What a call does at the moment; those without a name are of no use here.
class GrpcStep {
 public:
  static constexpr int MESSAGE_RECEIVED = 9;

  virtual ~GrpcStep() = default;
  virtual bool is(int what) = 0;
  virtual void proceed() = 0;
  virtual void hijack() = 0;
  virtual void* serialized() = 0;
  virtual const void* sent() = 0;
  virtual void change_sent(const void*) = 0;
  virtual bool sent_status() = 0;
  virtual void* sent_headers() = 0;
  virtual void* status() = 0;
  virtual void change_status(const void*) = 0;
  virtual void* trailers() = 0;
  virtual void* received() = 0;  // null at the end of a stream
};

// Sees every step of one call.
class GrpcInterceptor {
 public:
  virtual ~GrpcInterceptor() = default;
  virtual void intercept(GrpcStep* step) = 0;
};

struct GrpcCall {
  void* context;
  const char* method;
};

class GrpcInterceptors {
 public:
  virtual ~GrpcInterceptors() = default;
  virtual GrpcInterceptor* make(GrpcCall* call) = 0;  // null: the call is not looked at
};

struct GrpcBuilder {
  using Pointers = std::vector<void*>;
  struct Default {
    bool is_set;
    int value;
  };

  const void* table;
  int message_bytes, sent_message_bytes;
  std::vector<std::unique_ptr<GrpcOption>> options;
  Pointers services, ports, listeners;
  std::array<int, 4> completion;  // queues, pollers at least and at most, milliseconds
  Pointers queues;
  std::shared_ptr<void> credentials;
  Pointers plugins;
  void *quota, *generic_service, *allocator, *callback_service;
  Default level, algorithm;
  uint32_t algorithms;  // a bit each
  std::vector<std::unique_ptr<GrpcInterceptors>> interceptors;

  // Whether it is what Flight makes: no limit on messages, and the port not shared.
  bool known() const {
    constexpr uint32_t ALL = 7;
    return message_bytes == -1 && options.size() == 1 && services.size() == 1 &&
           listeners.empty() && completion == std::array{1, 1, 2, 10'000} && queues.empty() &&
           plugins.empty() && quota == nullptr && generic_service == nullptr &&
           allocator == nullptr && callback_service == nullptr && !level.is_set &&
           !algorithm.is_set && algorithms == ALL && interceptors.empty();
  }
};

namespace {

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
    if (message.metadata == nullptr) return look_bare();
    const std::string_view metadata(*message.metadata);
    PackedMessage packed(metadata, text(message.body));
    ARROW_RETURN_NOT_OK(packed.check_metadata());
    ARROW_ASSIGN_OR_RAISE(int64_t bytes, packed.unpacked_bytes());
    bytes += METADATA_FACTOR * static_cast<int64_t>(metadata.size());
    after_dictionary_ = packed.kind() == PackedMessage::Kind::DICTIONARY;
    if (packed.kind() != PackedMessage::Kind::DICTIONARY) return spend(bytes);
    int64_t& held = dictionaries_[packed.dictionary()];
    dictionary_bytes_ -= packed.is_delta() ? 0 : held;
    held = (packed.is_delta() ? held : 0) + bytes;
    dictionary_bytes_ += bytes;
    return spend(0);
  }

  // A message without a header has no rows. Behind a dictionary Arrow reads on until it has a
  // batch, and reads the header that is not there (25.0 dies of it).
  arrow::Status look_bare() const {
    if (!after_dictionary_) return arrow::Status::OK();
    return fault("DataError",
                 "a message with no Arrow header came behind a dictionary, where a dictionary or a "
                 "batch must follow; send metadata with a batch, or behind one");
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
  bool after_dictionary_ = false;  // since the last message that had a header
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

class GrpcLimits : public GrpcOption {
 public:
  // Connections that are idle for long are closed, but not those of agents by a Unix socket.
  GrpcLimits(const Limits& limits, bool local) {
    set("grpc.max_concurrent_streams", limits.streams_max);
    set("grpc.max_allowed_incoming_connections", surge(limits.connections_max));
    set("grpc.server_handshake_timeout_ms", milliseconds(limits.handshake_s));
    // A message that gRPC has compressed by itself could unfold to anything before it is seen.
    set("grpc.per_message_decompression", 0);
    if (local) return;
    set("grpc.max_connection_idle_ms", milliseconds(limits.peer_idle_s));
    set("grpc.keepalive_time_ms", milliseconds(KEEPALIVE_S));  // clients whose network is gone
    set("grpc.keepalive_timeout_ms", milliseconds(KEEPALIVE_S));
  }

  void change_arguments(GrpcArguments* arguments) override {
    for (const auto& [key, number] : numbers_) arguments->set(key, number);
  }

 private:
  static constexpr double KEEPALIVE_S = 60;

  static int64_t milliseconds(double seconds) { return static_cast<int64_t>(seconds * 1000); }
  void set(const char* key, int64_t number) {
    numbers_.emplace_back(key, static_cast<int>(std::min<int64_t>(number, INT32_MAX)));
  }

  std::vector<std::pair<const char*, int>> numbers_;
};

}  // namespace

arrow::Status limit_grpc(void* given, const Limits& limits, bool local) {
  auto* builder = static_cast<GrpcBuilder*>(given);
  if (!builder->known()) {
    return fault("ConfigError",
                 "this build of pyarrow has another gRPC than the one whose limits are known; "
                 "install pyarrow's own wheel");
  }
  builder->message_bytes = static_cast<int>(std::min<int64_t>(limits.message_bytes, INT32_MAX));
  builder->options.push_back(std::make_unique<GrpcLimits>(limits, local));
  builder->interceptors.push_back(std::make_unique<Inspectors>(limits.unpacked_bytes));
  return arrow::Status::OK();
}

std::shared_ptr<arrow::MemoryManager> intake() { return std::make_shared<Intake>(); }

}  // namespace fabric
