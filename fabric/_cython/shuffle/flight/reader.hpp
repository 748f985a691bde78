// What a handler reads a client's stream by.
//
// One job: Flight's own reader, with the clock of the call and the count of what comes in.
#pragma once
#include <arrow/flight/server.h>
#include <arrow/ipc/reader.h>

#include "flight/awaited.hpp"
#include "flight/intake.hpp"

namespace fabric {

namespace fl = arrow::flight;

class ClientReader : public fl::FlightMessageReader {
 public:
  // All of them outlive this; from the thread that will read.
  ClientReader(fl::FlightMessageReader& reader, Awaited& awaited, Intake& intake)
      : reader_(reader), awaited_(awaited), reading_(intake) {}

  const fl::FlightDescriptor& descriptor() const override { return reader_.descriptor(); }

  arrow::Result<std::shared_ptr<arrow::Schema>> GetSchema() override {
    const ClientsTurn turn(awaited_);
    return reader_.GetSchema();
  }

  arrow::Result<fl::FlightStreamChunk> Next() override {
    reading_.next();
    const ClientsTurn turn(awaited_);
    return reader_.Next();
  }

  arrow::ipc::ReadStats stats() const override { return reader_.stats(); }

 private:
  fl::FlightMessageReader& reader_;
  Awaited& awaited_;
  Intake::Reading reading_;
};

}  // namespace fabric
