// DoAction: Flight's own actions here, the others in Python (fabric/flight/actions.py).
//
// One job: cancel, renew and sessions as Flight defines them; what a stranger sends is parsed by
// Flight, and its tickets are verified as DoGet's are.
#pragma once
#include <arrow/flight/types.h>
#include <arrow/result.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "flight/asking.hpp"
#include "flight/directory.hpp"
#include "flight/listing.hpp"

namespace fabric {

class Sessions;

class Actions {
 public:
  static constexpr int64_t BODY_BYTES_MAX = 960 << 10;  // of a call that a stranger may begin

  // Of Flight's own actions those `own` names are there; by default all.
  Actions(const Asking& ask, const Finder& finder, const Listing& listing,
          const std::vector<std::string>& own);
  ~Actions();

  arrow::Result<std::vector<fl::ActionType>> offered(const Claims& claims) const;

  // `view` as the caller's session changes it.
  View view(const Claims& claims, const View& view) const;

  // The one answer of an action.
  arrow::Result<std::string> run(const Claims& claims, const fl::Action& action);

 private:
  arrow::Result<std::string> run_own(const Claims& claims, const std::string& type,
                                     const std::string& body);
  // Cancels the jobs whose exchanges the info names.
  arrow::Result<std::string> cancel(const Claims& claims, const std::string& body) const;
  // A path names one itself; for a command its tickets do.
  arrow::Result<std::set<std::string>> jobs_of(const fl::FlightInfo& info) const;
  // A new ticket for the same rows.
  arrow::Result<std::string> renew(const std::string& body) const;
  arrow::Result<std::string> set_options(const Claims& claims, const std::string& body);

  Asking ask_;
  Finder finder_;
  Listing listing_;
  std::set<std::string> own_;
  std::unique_ptr<Sessions> sessions_;
};

}  // namespace fabric
