// The partitions of a native store behind DoGet.
//
// One job: tickets of edges to the store; other tickets go where they went before.
#pragma once
#include "flight/handlers.hpp"
#include "store/store.hpp"

namespace fabric {

inline void set_store(Handlers& handlers, std::shared_ptr<const Store> store) {
  handlers.get = [store = std::move(store), others = std::move(handlers.get)](
                     const Ticket& ticket,
                     bool agent) -> arrow::Result<std::unique_ptr<MessageStream>> {
    const auto* partition = std::get_if<PartitionTicket>(&ticket);
    return partition == nullptr ? others(ticket, agent) : store->open(*partition, agent);
  };
}

}  // namespace fabric
