// PollFlightInfo: how far the partitions of a job are, and what can be read of them already.
//
// One job: progress from the location table. The answer comes at once, also when nothing changed.
#pragma once
#include "flight/listing.hpp"

namespace fabric {

class Polling {
 public:
  Polling(const Asking& ask, const Finder& finder, const Listing& listing)
      : ask_(ask), finder_(finder), listing_(listing) {}

  // Complete: the info and progress 1. Not yet: the info so far, the progress, and the descriptor
  // to poll again. A job that ended without completing the exchange is an error.
  arrow::Result<fl::PollInfo> poll(const fl::FlightDescriptor& descriptor, const Claims& claims,
                                   const View& view) const {
    ARROW_ASSIGN_OR_RAISE(const Named named, listing_.named(descriptor, claims));
    fl::PollInfo answer;
    answer.progress = 1.0;
    for (const AnyPath& path : named.paths) {
      const auto* job = std::get_if<JobPath>(&path);
      if (job == nullptr) continue;
      ARROW_ASSIGN_OR_RAISE(const EdgePtr edge, finder_.edge(job->job, job->node_path));
      if (edge->complete) continue;
      if (edge->state == JOB_FAILED || edge->state == JOB_CANCELLED) return ended(*edge);
      answer.descriptor = descriptor;
      answer.progress = least(answer.progress, progress(*edge));
      answer.expiration_time = timestamp(ask_.wall_s() + listing_.ticket_s());
    }
    // Last: what is complete now must be told whole.
    ARROW_ASSIGN_OR_RAISE(fl::FlightInfo info, listing_.info(descriptor, named, view));
    answer.info = std::make_unique<fl::FlightInfo>(std::move(info));
    return answer;
  }

 private:
  static arrow::Status ended(const EdgeLocation& edge) {
    const bool failed = edge.state == JOB_FAILED;
    return fault(failed ? "NotFoundError" : "CancelledError",
                 "job " + edge.job + (failed ? " failed" : " was cancelled") + " before " +
                     quoted(edge.node_path) + " was complete",
                 {.job = edge.job, .node = edge.node_path});
  }

  static std::optional<double> progress(const EdgeLocation& edge) {
    if (edge.n_producers == 0) return std::nullopt;
    return std::min(1.0, static_cast<double>(edge.producers.size()) / edge.n_producers);
  }

  // Of several exchanges the one that is least far; nothing when one does not say.
  static std::optional<double> least(std::optional<double> a, std::optional<double> b) {
    return a && b ? std::optional(std::min(*a, *b)) : std::nullopt;
  }

  Asking ask_;
  Finder finder_;
  Listing listing_;
};

}  // namespace fabric
