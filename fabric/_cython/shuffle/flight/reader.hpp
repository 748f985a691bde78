// What a handler reads a client's stream by.
//
// One job: Flight's own reader, with the clock of the call.
#pragma once
#include <arrow/flight/server.h>
#include <arrow/ipc/reader.h>

#include "flight/watch.hpp"

namespace fabric {

namespace fl = arrow::flight;

class ClientReader : public fl::FlightMessageReader {
 public:
  // Both outlive this.
  ClientReader(fl::FlightMessageReader& reader, Awaited& awaited)
      : reader_(reader), awaited_(awaited) {}

  const fl::FlightDescriptor& descriptor() const override { return reader_.descriptor(); }

  arrow::Result<std::shared_ptr<arrow::Schema>> GetSchema() override {
    const ClientsTurn turn(awaited_);
    return reader_.GetSchema();
  }

  arrow::Result<fl::FlightStreamChunk> Next() override {
    const ClientsTurn turn(awaited_);
    return reader_.Next();
  }

  arrow::ipc::ReadStats stats() const override { return reader_.stats(); }

 private:
  fl::FlightMessageReader& reader_;
  Awaited& awaited_;
};

}  // namespace fabric
