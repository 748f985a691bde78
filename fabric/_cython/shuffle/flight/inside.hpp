// Calls that are open in a server.
//
// One job: bound their number, of all and of one client. Agents always find a place, and who has a
// token one beside strangers.
#pragma once
#include <arrow/type_fwd.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace fabric {

struct Limits;

// Who makes a call, as far as places are given out.
struct Guest {
  enum class Kind { AGENT, CLIENT, STRANGER };  // a stranger has shown no token
  Kind kind = Kind::STRANGER;
  std::string name;    // whose calls are counted together
  bool stream = true;  // moves rows
};

class Inside {
 public:
  explicit Inside(const Limits& limits);

  arrow::Status enter(const Guest& guest);
  void leave(const Guest& guest);
  void close();
  bool closed() const;
  bool wait_empty(double timeout_s);
  int64_t open() const;
  // Grows when a stream begins or ends.
  int64_t changes() const;
  void set_most(int64_t most);

 private:
  arrow::Status place(const Guest& guest);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t n_ = 0, clients_ = 0, strangers_ = 0, changes_ = 0, most_;
  const int64_t peer_most_;
  std::unordered_map<std::string, int64_t> peers_;
  bool closed_ = false;
};

}  // namespace fabric
