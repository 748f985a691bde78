// The exchanges behind a server's DoExchange.
#pragma once
#include "exchange/serve.hpp"

namespace fabric {

inline void bind_exchange(Handlers& handlers, std::shared_ptr<JobPipes> jobs, double idle_s,
                          int cpu) {
  handlers.exchange = [jobs, idle_s, cpu](const ExchangePath& path, bool agent,
                                          fl::FlightMessageReader& reader,
                                          fl::FlightMessageWriter& writer,
                                          const Cancelled& cancelled) {
    return serve_exchange(*jobs, path, agent, reader, writer, cancelled, idle_s, cpu);
  };
}

}  // namespace fabric
