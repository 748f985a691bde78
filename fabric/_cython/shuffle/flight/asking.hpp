// What the server asks of Python: decisions, control calls and logs, never rows.
//
// One job: the functions by which Python is asked (server.pyx defines them; each takes the GIL) and
// what keeps a Python object alive in C++. Everything else answers while Python is busy.
#pragma once
#include <Python.h>
#include <arrow/result.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "wire/fault.hpp"

namespace fabric {

namespace fl = arrow::flight;

// A counted Python object that any thread may copy and drop; made by one that holds the GIL.
class PyRef {
 public:
  PyRef() = default;
  explicit PyRef(PyObject* object) : object_(object, &release) { Py_INCREF(object); }
  PyObject* get() const { return object_.get(); }

 private:
  static void release(PyObject* object) {
    if (!Py_IsInitialized()) return;  // the process ends; its memory goes as a whole
    const PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(object);
    PyGILState_Release(state);
  }
  std::shared_ptr<PyObject> object_;
};

// Each includes the former.
enum class Scope : uint32_t { READ = 0, WRITE = 1, SUBMIT = 2, AGENT = 3 };

inline const char* scope_name(Scope scope) {
  constexpr const char* names[] = {"read", "write", "submit", "agent"};
  return names[static_cast<uint32_t>(scope)];
}

// What a checked token says.
struct Claims {
  Scope scope = Scope::READ;
  std::string subject;
  double expires_s = 0;
  std::string key;  // the token's digest: names its session, tells nothing about it

  bool is_agent() const { return scope == Scope::AGENT; }
  bool allows(Scope wanted) const { return scope >= wanted; }
  arrow::Status require(Scope wanted, const std::string& what) const {
    if (allows(wanted)) return arrow::Status::OK();
    return fault("ScopeError", what + " needs a token of scope '" + scope_name(wanted) +
                                   "', this one has '" + scope_name(scope) + "'");
  }
};

// What a command stands for: the exchanges and datasets it can be read as, by their paths.
struct CommandAnswer {
  std::vector<std::vector<std::string>> paths;
  bool own_words = false;  // whether `app_metadata` takes the place of ours
  std::string app_metadata;
};

// What is wrong with an option of a session.
enum class Verdict : uint32_t { GOOD = 0, NAME = 1, VALUE = 2 };

struct Asking {
  PyRef face;
  double (*clock)(PyObject*) = nullptr;  // null: the machine's own
  arrow::Status (*verify)(PyObject*, const std::string& header, Claims&) = nullptr;
  void (*refused)(PyObject*, const std::string& method, const std::string& why) = nullptr;
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
  arrow::Status (*cancel)(PyObject*, const std::string& job, uint32_t& state) = nullptr;
  arrow::Status (*command)(PyObject*, const Claims&, const std::string& command,
                           CommandAnswer&) = nullptr;
  // Of an option that is not the server's own; null: any is good.
  arrow::Status (*option)(PyObject*, const std::string& name, const std::string& text,
                          Verdict&) = nullptr;

  double wall_s() const {
    if (clock != nullptr) return clock(face.get());
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
  }

  // What may leave: errors made by `fault`; anything else is logged and loses its words.
  arrow::Status outward(const arrow::Status& status) const {
    if (status.ok()) return status;
    if (!detail_of(status).empty()) return framed(with_few_words(status));
    broken(face.get(), status.ToStringWithoutContextLines());
    return framed(fault("InternalError", "unexpected " + status.CodeAsString() +
                                             "; the log of the process it happened in says more"));
  }

 private:
  static constexpr size_t WORDS_BYTES_MAX = 1000;

  // Flight sends the words three times, as headers, of which clients take 8 or 16 KB; the detail
  // has them all.
  static arrow::Status with_few_words(const arrow::Status& status) {
    if (status.message().size() <= WORDS_BYTES_MAX) return status;
    size_t n_bytes = WORDS_BYTES_MAX;
    while (n_bytes > 0 && (status.message()[n_bytes] & 0xC0) == 0x80) --n_bytes;
    return arrow::Status(status.code(), status.message().substr(0, n_bytes) + "…",
                         status.detail());
  }
};

}  // namespace fabric
