// A second way into a server: a Unix socket, for agents of the same host.
//
// One job: hand every verb to the one server, whose gate has checked the caller here too. gRPC's
// own way to listen twice, `ServerBuilder::AddListeningPort`, is hidden inside libarrow_flight.
#pragma once
#include <arrow/flight/server.h>

#include <memory>

#include "wire/widen.hpp"

namespace fabric {

namespace fl = arrow::flight;

class Door : public fl::FlightServerBase {
 public:
  // `server` outlives it.
  explicit Door(fl::FlightServerBase& server) : server_(server) {}

  arrow::Status ListFlights(const fl::ServerCallContext& context, const fl::Criteria* criteria,
                            std::unique_ptr<fl::FlightListing>* listings) override {
    return server_.ListFlights(context, criteria, listings);
  }

  arrow::Status GetFlightInfo(const fl::ServerCallContext& context,
                              const fl::FlightDescriptor& request,
                              std::unique_ptr<fl::FlightInfo>* info) override {
    return server_.GetFlightInfo(context, request, info);
  }

  arrow::Status PollFlightInfo(const fl::ServerCallContext& context,
                               const fl::FlightDescriptor& request,
                               std::unique_ptr<fl::PollInfo>* info) override {
    return server_.PollFlightInfo(context, request, info);
  }

  arrow::Status GetSchema(const fl::ServerCallContext& context, const fl::FlightDescriptor& request,
                          std::unique_ptr<fl::SchemaResult>* schema) override {
    return server_.GetSchema(context, request, schema);
  }

  arrow::Status DoGet(const fl::ServerCallContext& context, const fl::Ticket& request,
                      std::unique_ptr<fl::FlightDataStream>* stream) override {
    widener_.look();
    return server_.DoGet(context, request, stream);
  }

  arrow::Status DoPut(const fl::ServerCallContext& context,
                      std::unique_ptr<fl::FlightMessageReader> reader,
                      std::unique_ptr<fl::FlightMetadataWriter> writer) override {
    return server_.DoPut(context, std::move(reader), std::move(writer));
  }

  arrow::Status DoExchange(const fl::ServerCallContext& context,
                           std::unique_ptr<fl::FlightMessageReader> reader,
                           std::unique_ptr<fl::FlightMessageWriter> writer) override {
    widener_.look();
    return server_.DoExchange(context, std::move(reader), std::move(writer));
  }

  arrow::Status ListActions(const fl::ServerCallContext& context,
                            std::vector<fl::ActionType>* actions) override {
    return server_.ListActions(context, actions);
  }

  arrow::Status DoAction(const fl::ServerCallContext& context, const fl::Action& action,
                         std::unique_ptr<fl::ResultStream>* result) override {
    return server_.DoAction(context, action, result);
  }

 private:
  fl::FlightServerBase& server_;
  Widener widener_;
};

}  // namespace fabric
