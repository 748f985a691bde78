// What the server asks of Python: decisions, control calls and logs, never rows.
//
// One job: the functions by which Python is asked (server.pyx defines them; each takes the GIL).
// Everything else answers while Python is busy.
#pragma once
#include <arrow/flight/type_fwd.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "wire/python.hpp"

namespace fabric {

namespace fl = arrow::flight;

// Each includes the former.
enum class Scope : uint32_t { READ = 0, WRITE = 1, SUBMIT = 2, AGENT = 3 };

const char* scope_name(Scope scope);

// What a checked token says.
struct Claims {
  Scope scope = Scope::READ;
  std::string subject;
  double expires_s = 0;
  std::string key;  // the token's digest: names its session, tells nothing about it

  bool is_agent() const { return scope == Scope::AGENT; }
  bool allows(Scope wanted) const { return scope >= wanted; }
  arrow::Status require(Scope wanted, const std::string& what) const;
};

// What a command stands for: the exchanges and datasets it can be read as, by their paths.
struct CommandAnswer {
  std::vector<std::vector<std::string>> paths;
  bool own_words = false;  // whether `app_metadata` takes the place of ours
  std::string app_metadata;
};

// A state of a stream by its descriptor, and the dataset in the location table that it is read as.
struct StateDataset {
  std::vector<std::string> path;
  std::string dataset;
};

// What is wrong with an option of a session.
enum class Verdict : uint32_t { GOOD = 0, NAME = 1, VALUE = 2 };

struct Asking {
  PyRef face;
  double (*clock)(PyObject*) = nullptr;  // null: the machine's own
  arrow::Status (*verify)(PyObject*, const std::string& header, Claims&) = nullptr;
  void (*refused)(PyObject*, const std::string& method, const std::string& why,
                  const std::string& peer) = nullptr;
  void (*broken)(PyObject*, const std::string& what) = nullptr;  // a bug, for the log alone
  // An owner of a dataset's partition could not give it, and another one is asked.
  void (*passed_over)(PyObject*, const std::string& dataset, uint32_t partition,
                      const std::string& owner, const std::string& why) = nullptr;
  arrow::Status (*locate)(PyObject*, const std::string& job, const std::string& dataset) = nullptr;
  arrow::Status (*challenge)(PyObject*, const std::string& agent, std::string& nonce) = nullptr;
  arrow::Status (*prove)(PyObject*, const std::string& agent, const std::string& nonce,
                         const std::string& proof, std::string& token) = nullptr;
  arrow::Status (*login)(PyObject*, const std::string& user, const std::string& password,
                         std::string& token) = nullptr;
  arrow::Status (*offered)(PyObject*, const Claims&,
                           std::vector<std::pair<std::string, std::string>>&) = nullptr;
  arrow::Status (*act)(PyObject*, const Claims&, const std::string& name, const std::string& body,
                       std::string& answer) = nullptr;
  arrow::Status (*cancel)(PyObject*, const Claims&, const std::string& job,
                          uint32_t& state) = nullptr;
  arrow::Status (*command)(PyObject*, const Claims&, const std::string& command,
                           CommandAnswer&) = nullptr;
  // The states whose descriptors begin with `path`; of a whole path the one, or why there is none.
  // Null: nothing here has states.
  arrow::Status (*states)(PyObject*, const std::vector<std::string>& path,
                          std::vector<StateDataset>&) = nullptr;
  // Of an option that is not the server's own; null: any is good.
  arrow::Status (*option)(PyObject*, const std::string& name, const std::string& text,
                          Verdict&) = nullptr;

  double wall_s() const;

  // What may leave: errors made by `fault`; anything else is logged and loses its words.
  arrow::Status outward(const arrow::Status& status) const;
};

}  // namespace fabric
