// Whose rows: of which attempt of which task on which edge.
//
// One job: what the index of spill files and errors about them say of an output.
#pragma once
#include <cstdint>
#include <string>

#include "wire/fault.hpp"
#include "wire/ticket.hpp"

namespace fabric {

struct OutputName {
  std::string agent, job;
  uint32_t edge = 0;
  ProducerAttempt producer{0, 0};

  std::string task() const {
    return std::to_string(producer.task) + "#" + std::to_string(producer.attempt);
  }
  Where where() const { return {.job = job, .task = task(), .agent = agent}; }
};

}  // namespace fabric
