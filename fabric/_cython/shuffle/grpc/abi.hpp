// What gRPC's public headers make part of every caller, declared here again: nowhere else.
//
// One job: the shapes. gRPC is hidden inside the wheel's library and its headers are not shipped;
// Flight's builder hook hands its `ServerBuilder` out all the same. A wheel with another gRPC is
// refused when the server is imported (`version.hpp`). What Flight has put into a builder is known,
// too, and `GrpcBuilder::known` looks at it first: a wheel that was built otherwise is refused in
// words.
#pragma once
#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace fabric {

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

}  // namespace fabric
