// What there is to read, as FlightInfos, and how far it is.
//
// One job: locations to FlightInfo. One endpoint per (partition, producing agent), of datasets per
// partition, the partition number as text in the endpoint's app_metadata; locations are the agent's
// advertised address, of datasets those of all owners that are connected, and then
// arrow-flight-reuse-connection://?, because every agent also passes on what others hold. What can
// be read again says until when; a tap can't. PollFlightInfo is answered at once from the location
// table, also when nothing changed.
#pragma once
#include <arrow/flight/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flight/directory.hpp"
#include "flight/paths.hpp"
#include "wire/ticket.hpp"

namespace fabric {

enum class Places { ALL, REUSE, NONE };

// How a client wants to be shown what there is: options of its session, or headers of a call. Taps
// of pipelined edges may be lossy or lossless; endpoints may say where their rows lie, or that this
// connection serves them all, or nothing, which means the same to clients that are older than
// `arrow-flight-reuse-connection`.
struct View {
  TapMode tap = TapMode::LOSSY;
  Places places = Places::ALL;
};

constexpr std::string_view OWN_OPTIONS = "fabric.";  // how the names of ours begin

struct ViewOption {
  const char *name, *words;
  bool (*set)(View&, std::string_view word);  // false: no word of it
};

bool set_tap(View& view, std::string_view word);
bool set_places(View& view, std::string_view word);

inline constexpr std::array VIEW_OPTIONS = {
    ViewOption{"fabric.tap", "'lossy' or 'lossless'", &set_tap},
    ViewOption{"fabric.locations", "'all', 'reuse' or 'none'", &set_places},
};

// The one of that name, or null.
const ViewOption* view_option(std::string_view name);

// What a descriptor stands for: itself, or what its command was answered by.
struct Named {
  std::vector<AnyPath> paths;
  std::optional<std::string> said;  // instead of our own app_metadata
};

class Listing {
 public:
  Listing(const Asking& ask, const Finder& finder, std::string ticket_key, double ticket_s)
      : ask_(ask), finder_(finder), key_(std::move(ticket_key)), ticket_s_(ticket_s) {}

  const std::string& ticket_key() const { return key_; }

  arrow::Result<Named> named(const fl::FlightDescriptor& descriptor, const Claims& claims) const;

  // What is told of `named` from here on is all there is now. Who polls needs none of this.
  void refresh(const Named& named) const;

  // All endpoints of what `descriptor` names; those of pipelined edges are taps.
  arrow::Result<fl::FlightInfo> info(const fl::FlightDescriptor& descriptor, const Named& named,
                                     const View& view) const;

  // The schema of what is named, as Arrow IPC; of several things, of the first.
  arrow::Result<std::string> schema(const Named& named) const;

  // Everything whose path begins with `criteria`: elements joined by '/', empty for all. For
  // example dataset, dataset/flights, job/job-1a2b or job/job-1a2b/enrich.
  arrow::Result<std::vector<fl::FlightInfo>> all(std::string_view criteria, const View& view) const;

  // How far the partitions of a job are, and what can be read of them already. Complete: the info
  // and progress 1. Not yet: the info so far, the progress, and the descriptor to poll again. A job
  // that ended without completing the exchange is an error.
  arrow::Result<fl::PollInfo> poll(const fl::FlightDescriptor& descriptor, const Claims& claims,
                                   const View& view) const;

  // The ticket of an endpoint, and until when its rows can be read, again and again.
  void sign(fl::FlightEndpoint& endpoint, const Ticket& ticket, double release_s) const;

 private:
  // The dataset that the state of this descriptor is read as.
  arrow::Result<AnyPath> state(const std::vector<std::string>& path) const;
  arrow::Status add_states(const std::vector<std::string>& wanted, const View& view,
                           std::vector<fl::FlightInfo>& all) const;
  arrow::Result<fl::FlightInfo::Data> of_path(const AnyPath& path, const View& view) const;
  fl::FlightInfo::Data of_dataset(const DatasetLocation& location, const View& view) const;
  arrow::Result<fl::FlightInfo::Data> of_edge(const EdgeLocation& location,
                                              std::optional<uint32_t> partition,
                                              const View& view) const;
  fl::FlightEndpoint endpoint(const Ticket& ticket, uint32_t partition,
                              std::span<const std::string> agents, double release_s,
                              const View& view) const;

  Asking ask_;
  Finder finder_;
  std::string key_;
  double ticket_s_;
};

}  // namespace fabric
