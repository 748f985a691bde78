// The verbs of the Flight server: see `server.hpp`.
//
// One job: from Flight's calls to ours. Each verb checks the caller's scope, does its work in
// another class, and lets no error out but those made by `fault`. CANCELLED is never sent: pyarrow
// clients turn it into a KeyboardInterrupt of the whole process.
#include "flight/server.hpp"

#include <arrow/buffer.h>
#include <arrow/flight/server.h>
#include <arrow/ipc/reader.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "flight/actions.hpp"
#include "flight/gate.hpp"
#include "flight/gets.hpp"
#include "flight/handlers.hpp"
#include "flight/listing.hpp"
#include "flight/paths.hpp"
#include "flight/stream_puts.hpp"
#include "flight/text.hpp"
#include "flight/calls.hpp"
#include "grpc/abi.hpp"
#include "store/message.hpp"
#include "wire/admission.hpp"
#include "wire/fault.hpp"
#include "wire/ticket.hpp"
#include "wire/sockets.hpp"

namespace fabric {
namespace {

constexpr int64_t STRANGER_BYTES = 1 << 20;

// What a handler reads a client's stream by: Flight's own reader, with the clock of the call.
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

// What the verbs of a server work with, whichever way a call comes in.
struct ServerState {
  explicit ServerState(const ServerConfig& config)
      : ask(config.ask), key(config.ticket_key), handlers(config.handlers),
        streams(config.streams), view(config.view), inside(std::make_shared<Inside>(config.limits)),
        watch(std::make_shared<Watch>()), finder(ask, config.table),
        listing(ask, finder, key, config.ticket_s), gets(config.agent_id, finder, handlers),
        actions(ask, finder, listing, config.actions) {}

  const Asking ask;
  const std::string key;
  const std::shared_ptr<const Handlers> handlers;
  const std::shared_ptr<StreamDoor> streams;
  const View view;
  const std::shared_ptr<Inside> inside;
  const std::shared_ptr<Watch> watch;
  const Finder finder;
  const Listing listing;
  const Gets gets;
  Actions actions;
};

// One way into a server: its address, or a Unix socket for agents of the same host. The gate has
// checked the caller of either. gRPC's own way to listen twice, `ServerBuilder::AddListeningPort`,
// is hidden inside libarrow_flight.
class Entrance final : public fl::FlightServerBase {
 public:
  // `state` outlives it.
  Entrance(ServerState& state, bool local) : state_(state), local_(local) {}

  arrow::Status ListFlights(const fl::ServerCallContext& context, const fl::Criteria* criteria,
                            std::unique_ptr<fl::FlightListing>* listings) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const View view, view_of(context, claims));
      ARROW_ASSIGN_OR_RAISE(auto found,
                            state_.listing.all(criteria ? criteria->expression : "", view));
      *listings = std::make_unique<fl::SimpleFlightListing>(std::move(found));
      return arrow::Status::OK();
    });
  }

  arrow::Status GetFlightInfo(const fl::ServerCallContext& context,
                              const fl::FlightDescriptor& request,
                              std::unique_ptr<fl::FlightInfo>* info) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const View view, view_of(context, claims));
      ARROW_ASSIGN_OR_RAISE(const Named named, state_.listing.named(request, claims));
      state_.listing.refresh(named);
      ARROW_ASSIGN_OR_RAISE(fl::FlightInfo found, state_.listing.info(request, named, view));
      *info = std::make_unique<fl::FlightInfo>(std::move(found));
      return arrow::Status::OK();
    });
  }

  arrow::Status PollFlightInfo(const fl::ServerCallContext& context,
                               const fl::FlightDescriptor& request,
                               std::unique_ptr<fl::PollInfo>* info) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const View view, view_of(context, claims));
      ARROW_ASSIGN_OR_RAISE(fl::PollInfo found, state_.listing.poll(request, claims, view));
      *info = std::make_unique<fl::PollInfo>(std::move(found));
      return arrow::Status::OK();
    });
  }

  arrow::Status GetSchema(const fl::ServerCallContext& context,
                          const fl::FlightDescriptor& request,
                          std::unique_ptr<fl::SchemaResult>* schema) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const Named named, state_.listing.named(request, claims));
      ARROW_ASSIGN_OR_RAISE(std::string found, state_.listing.schema(named));
      *schema = std::make_unique<fl::SchemaResult>(std::move(found));
      return arrow::Status::OK();
    });
  }

  arrow::Status DoGet(const fl::ServerCallContext& context, const fl::Ticket& request,
                      std::unique_ptr<fl::FlightDataStream>* stream) override {
    if (local_) widener_.look();
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const Ticket ticket,
                            verify_ticket(state_.key, request.ticket, state_.ask.wall_s()));
      ARROW_ASSIGN_OR_RAISE(auto messages, state_.gets.open(ticket, claims.is_agent()));
      ARROW_ASSIGN_OR_RAISE(auto schema, state_.gets.schema(*messages, ticket));
      *stream = get_stream(state_.ask, std::move(messages), std::move(schema), claims.is_agent(),
                           is_tap(ticket), state_.inside, state_.watch, context);
      return arrow::Status::OK();
    });
  }

  arrow::Status DoPut(const fl::ServerCallContext& context,
                      std::unique_ptr<fl::FlightMessageReader> reader,
                      std::unique_ptr<fl::FlightMetadataWriter> writer) override {
    return call(context, Scope::WRITE, [&](const Claims& claims) -> arrow::Status {
      ClientReader rows(*reader, *awaited_of(context));
      if (state_.streams != nullptr && is_stream(reader->descriptor())) {
        ARROW_RETURN_NOT_OK(check_elements(reader->descriptor().path));
        return state_.streams->take(reader->descriptor().path, claims.is_agent(), rows, *writer,
                                    cancelled(context));
      }
      ARROW_ASSIGN_OR_RAISE(const AnyPath path, path_of(reader->descriptor()));
      PutPath put;
      if (const auto* dataset = std::get_if<DatasetPath>(&path)) {
        put.name = dataset->name;
      } else if (const auto* attempt = std::get_if<PutPath>(&path)) {
        put = *attempt;
      } else {
        return fault("NotFoundError",
                     "rows can only be put to [\"dataset\", name], [\"dataset\", name, "
                     "transaction, writer, attempt] or [\"stream\", name]");
      }
      return state_.handlers->put(put, claims.is_agent(), rows, *writer, cancelled(context));
    });
  }

  arrow::Status DoExchange(const fl::ServerCallContext& context,
                           std::unique_ptr<fl::FlightMessageReader> reader,
                           std::unique_ptr<fl::FlightMessageWriter> writer) override {
    if (local_) widener_.look();
    return call(context, Scope::WRITE, [&](const Claims& claims) -> arrow::Status {
      const fl::FlightDescriptor& descriptor = reader->descriptor();
      if (!state_.handlers->exchange || descriptor.path.empty() ||
          descriptor.path[0] != "exchange") {
        return fault("NotFoundError",
                     "nothing here answers do_exchange; use do_get or do_put");
      }
      ARROW_RETURN_NOT_OK(claims.require(Scope::AGENT, "an exchange"));
      ARROW_ASSIGN_OR_RAISE(const AnyPath path, path_of(descriptor));
      const auto* exchange = std::get_if<ExchangePath>(&path);
      if (exchange == nullptr) return fault("NotFoundError", "this descriptor is no exchange");
      ClientReader credits(*reader, *awaited_of(context));
      return state_.handlers->exchange(*exchange, claims.is_agent(), credits, *writer,
                                       cancelled(context));
    });
  }

  arrow::Status ListActions(const fl::ServerCallContext& context,
                            std::vector<fl::ActionType>* actions) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      return state_.actions.offered(claims).Value(actions);
    });
  }

  arrow::Status DoAction(const fl::ServerCallContext& context, const fl::Action& action,
                         std::unique_ptr<fl::ResultStream>* result) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(std::string answer, state_.actions.run(claims, action));
      std::vector<fl::Result> answers{fl::Result(arrow::Buffer::FromString(std::move(answer)))};
      *result = std::make_unique<fl::SimpleResultStream>(std::move(answers));
      return arrow::Status::OK();
    });
  }

 private:
  template <class Work>
  arrow::Status call(const fl::ServerCallContext& context, Scope scope, Work&& work) const {
    const OurTurn turn(awaited_of(context));
    const arrow::Result<Claims> claims = claims_of(context);
    arrow::Status status = claims.status();
    if (status.ok()) status = claims->require(scope, "this call");
    if (status.ok()) status = work(*claims);
    return state_.ask.outward(status);
  }

  // How the caller wants to be shown things: by headers of the call, else by its session.
  arrow::Result<View> view_of(const fl::ServerCallContext& context, const Claims& claims) const {
    View view = state_.actions.view(claims, state_.view);
    for (const ViewOption& option : VIEW_OPTIONS) {
      const auto given = context.incoming_headers().find(option.name);
      if (given == context.incoming_headers().end() || option.set(view, given->second)) continue;
      return fault("ConfigError", std::string("the header ") + option.name + " must be " +
                                      option.words + ", got " +
                                      quoted(std::string(given->second).substr(0, 100)));
    }
    return view;
  }

  Cancelled cancelled(const fl::ServerCallContext& context) const {
    return [&context, inside = state_.inside] {
      return context.is_cancelled() || inside->closed();
    };
  }

  ServerState& state_;
  const bool local_;
  Widener widener_;
};

class FlightServer final : public Server {
 public:
  explicit FlightServer(const ServerConfig& config)
      : limits_(config.limits), state_(config), intake_(intake()),
        handshake_(std::make_shared<Handshake>(config.ask)),
        admission_(std::make_shared<Admission>(
            Capacity{limits_.connections_max, limits_.handshake_s, STRANGER_BYTES})),
        gate_(std::make_shared<Gate>(config.ask, state_.inside, state_.watch, admission_, limits_,
                                     config.echoed)) {}

  static arrow::Result<std::shared_ptr<Server>> start(const ServerConfig& config) {
    auto server = std::make_shared<FlightServer>(config);
    arrow::Status limited;
    ARROW_ASSIGN_OR_RAISE(auto options, server->options_at(config.location, false, limited));
    if (!config.tls_certificate.empty()) {
      options.tls_certificates.push_back({config.tls_certificate, config.tls_key});
    }
    ARROW_RETURN_NOT_OK(server->network_.Init(options));
    if (!limited.ok()) {
      server->end();
      return limited;
    }
    server->admission_->watch(server->port());
    return server;
  }

  arrow::Status listen(const std::string& path) override {
    arrow::Status limited;
    ARROW_ASSIGN_OR_RAISE(const auto options, options_at("grpc+unix://" + path, true, limited));
    auto socket = std::make_unique<Entrance>(state_, true);
    if (const auto begun = socket->Init(options); !begun.ok()) {
      return fault("StorageError", "can't listen on " + path + ": " + begun.message());
    }
    socket_ = std::move(socket);
    return limited;
  }

  void end() override {
    for (Entrance* one : {socket_.get(), &network_}) {
      if (one == nullptr) continue;
      const auto now = std::chrono::system_clock::now();
      (void)one->Shutdown(&now);
      (void)one->Wait();
    }
  }

  Inside& inside() override { return *state_.inside; }
  int port() const override { return network_.port(); }

 private:
  // `limited`, which outlives the start, says whether gRPC took its limits.
  arrow::Result<fl::FlightServerOptions> options_at(const std::string& address, bool local,
                                                    arrow::Status& limited) const {
    ARROW_ASSIGN_OR_RAISE(const fl::Location location, fl::Location::Parse(address));
    fl::FlightServerOptions options(location);
    options.auth_handler = handshake_;
    options.middleware.emplace_back(CALLER, gate_);
    options.memory_manager = intake_;
    options.builder_hook = [limits = limits_, local, &limited](void* builder) {
      limited = limit_grpc(builder, limits, local);
    };
    return options;
  }

  const Limits limits_;
  ServerState state_;
  std::shared_ptr<arrow::MemoryManager> intake_;
  std::shared_ptr<Handshake> handshake_;
  std::shared_ptr<Admission> admission_;
  std::shared_ptr<Gate> gate_;
  Entrance network_{state_, false};
  std::unique_ptr<Entrance> socket_;
};

}  // namespace

arrow::Result<std::shared_ptr<Server>> Server::start(const ServerConfig& config) {
  return FlightServer::start(config);
}

bool stop_server(std::shared_ptr<Server> server, double grace_s) {
  server->inside().close();
  const bool empty = server->inside().wait_empty(grace_s);
  auto over = std::make_shared<std::promise<void>>();
  std::future<void> ended = over->get_future();
  std::thread([server = std::move(server), over]() mutable {
    server->end();
    server.reset();
    over->set_value();
  }).detach();
  const std::chrono::duration<double> wait(std::max(grace_s, 2.0));
  return ended.wait_for(wait) == std::future_status::ready && empty;
}

}  // namespace fabric
