// The table of librdkafka's functions, filled once.
//
// One job: the body of abi.hpp.
#include "kafka/abi.hpp"

#include <dlfcn.h>

#include <mutex>

namespace fabric::kafka {

namespace {

Api table;
bool loaded = false;
std::mutex loading;

std::string symbol_of(const char* member) {
  std::string name = std::string("rd_kafka_") + member;
  if (name.back() == '_') name.pop_back();
  return name;
}

// Fills `found`; the names that are not there.
std::string look_up(void* library, Api& found) {
  std::string missing;
#define FABRIC_KAFKA_LOOK_UP(result, name, arguments)                                              \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, symbol_of(#name).c_str()));   \
  if (found.name == nullptr) missing += (missing.empty() ? "" : ", ") + symbol_of(#name);
  FABRIC_KAFKA_FUNCTIONS(FABRIC_KAFKA_LOOK_UP)
#undef FABRIC_KAFKA_LOOK_UP
  return missing;
}

}  // namespace

const Api& api() { return table; }

std::string load(const char* path) {
  const std::lock_guard<std::mutex> lock(loading);
  if (loaded) return "";
  // Where Python has it already, this is the same library: its file decides, not its path here.
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::string("it can't be loaded: ") + dlerror();
  Api found;
  const std::string missing = look_up(library, found);
  if (found.version == nullptr || found.version_str == nullptr) {
    dlclose(library);
    return "no librdkafka was found in " + std::string(path);
  }
  const int number = found.version();
  if (number >> 24 != VERSION_MAJOR || number < VERSION_MIN) {
    const std::string refusal = std::string("it bundles librdkafka ") + found.version_str() +
                                ", and Fabric needs version 2.8.0 or a newer 2.x";
    dlclose(library);
    return refusal;
  }
  if (!missing.empty()) {
    dlclose(library);
    return "its librdkafka lacks " + missing;
  }
  table = found;  // never closed: handles of it may live until the process ends
  loaded = true;
  return "";
}

std::string version() { return loaded ? table.version_str() : ""; }

std::string features() {
  if (!loaded) return "";
  Conf* conf = table.conf_new();
  char text[1024] = "";
  size_t size = sizeof text;
  table.conf_get(conf, "builtin.features", text, &size);
  table.conf_destroy(conf);
  return text;
}

}  // namespace fabric::kafka
