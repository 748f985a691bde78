// Where puts into streams go: the door between the server and the queues that jobs read.
//
// One job: the contract.
#pragma once
#include <string>
#include <vector>

#include "flight/handlers.hpp"

namespace fabric {

class StreamDoor {
 public:
  virtual ~StreamDoor() = default;
  // Takes the whole stream of a put to `path`, and acknowledges its messages as they are safe.
  virtual arrow::Status take(const std::vector<std::string>& path, bool agent,
                             fl::FlightMessageReader& reader, fl::FlightMetadataWriter& writer,
                             const Cancelled& cancelled) = 0;
};

inline bool is_stream(const fl::FlightDescriptor& descriptor) {
  return descriptor.type == fl::FlightDescriptor::PATH && !descriptor.path.empty() &&
         descriptor.path[0] == "stream";
}

}  // namespace fabric
