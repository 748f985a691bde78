// The verbs of the Flight server: see `server.hpp`.
//
// One job: from Flight's calls to ours. Each verb checks the caller's scope, does its work in
// another class, and lets no error out but those made by `fault`. CANCELLED is never sent: pyarrow
// clients turn it into a KeyboardInterrupt of the whole process.
#include "flight/server.hpp"

#include <arrow/buffer.h>
#include <arrow/flight/server.h>

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
#include "flight/reader.hpp"
#include "flight/stream_puts.hpp"
#include "flight/text.hpp"
#include "flight/watch.hpp"
#include "grpc/options.hpp"
#include "store/message.hpp"
#include "wire/admission.hpp"
#include "wire/fault.hpp"
#include "wire/ticket.hpp"
#include "wire/sockets.hpp"

namespace fabric {
namespace {

constexpr int64_t STRANGER_BYTES = 1 << 20;

// A second way into a server: a Unix socket, for agents of the same host. It hands every verb to
// the one server, whose gate has checked the caller here too. gRPC's own way to listen twice,
// `ServerBuilder::AddListeningPort`, is hidden inside libarrow_flight.
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

class FlightServer final : public Server, public fl::FlightServerBase {
 public:
  explicit FlightServer(const ServerConfig& config)
      : ask_(config.ask), key_(config.ticket_key), handlers_(config.handlers),
        streams_(config.streams), limits_(config.limits),
        inside_(std::make_shared<Inside>(limits_)),
        watch_(std::make_shared<Watch>()),
        intake_(intake()),
        handshake_(std::make_shared<Handshake>(ask_)),
        admission_(std::make_shared<Admission>(
            Capacity{limits_.connections_max, limits_.handshake_s, STRANGER_BYTES})),
        gate_(std::make_shared<Gate>(ask_, inside_, watch_, admission_, limits_, config.echoed)),
        view_(config.view),
        finder_(ask_, config.table), listing_(ask_, finder_, key_, config.ticket_s),
        polling_(ask_, finder_, listing_), gets_(config.agent_id, finder_, config.handlers),
        actions_(ask_, finder_, listing_, config.actions) {}

  static arrow::Result<std::shared_ptr<Server>> start(const ServerConfig& config) {
    auto server = std::make_shared<FlightServer>(config);
    arrow::Status limited;
    ARROW_ASSIGN_OR_RAISE(auto options, server->options_at(config.location, false, limited));
    if (!config.tls_certificate.empty()) {
      options.tls_certificates.push_back({config.tls_certificate, config.tls_key});
    }
    ARROW_RETURN_NOT_OK(server->Init(options));
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
    auto door = std::make_unique<Door>(*this);
    if (const auto begun = door->Init(options); !begun.ok()) {
      return fault("StorageError", "can't listen on " + path + ": " + begun.message());
    }
    door_ = std::move(door);
    return limited;
  }

  void end() override {
    for (fl::FlightServerBase* one : {static_cast<fl::FlightServerBase*>(door_.get()),
                                      static_cast<fl::FlightServerBase*>(this)}) {
      if (one == nullptr) continue;
      const auto now = std::chrono::system_clock::now();
      (void)one->Shutdown(&now);
      (void)one->Wait();
    }
  }

  Inside& inside() override { return *inside_; }
  int port() const override { return fl::FlightServerBase::port(); }

  arrow::Status ListFlights(const fl::ServerCallContext& context, const fl::Criteria* criteria,
                            std::unique_ptr<fl::FlightListing>* listings) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const View view, view_of(context, claims));
      ARROW_ASSIGN_OR_RAISE(auto found, listing_.all(criteria ? criteria->expression : "", view));
      *listings = std::make_unique<fl::SimpleFlightListing>(std::move(found));
      return arrow::Status::OK();
    });
  }

  arrow::Status GetFlightInfo(const fl::ServerCallContext& context,
                              const fl::FlightDescriptor& request,
                              std::unique_ptr<fl::FlightInfo>* info) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const View view, view_of(context, claims));
      ARROW_ASSIGN_OR_RAISE(const Named named, listing_.named(request, claims));
      listing_.refresh(named);
      ARROW_ASSIGN_OR_RAISE(fl::FlightInfo found, listing_.info(request, named, view));
      *info = std::make_unique<fl::FlightInfo>(std::move(found));
      return arrow::Status::OK();
    });
  }

  arrow::Status PollFlightInfo(const fl::ServerCallContext& context,
                               const fl::FlightDescriptor& request,
                               std::unique_ptr<fl::PollInfo>* info) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const View view, view_of(context, claims));
      ARROW_ASSIGN_OR_RAISE(fl::PollInfo found, polling_.poll(request, claims, view));
      *info = std::make_unique<fl::PollInfo>(std::move(found));
      return arrow::Status::OK();
    });
  }

  arrow::Status GetSchema(const fl::ServerCallContext& context,
                          const fl::FlightDescriptor& request,
                          std::unique_ptr<fl::SchemaResult>* schema) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const Named named, listing_.named(request, claims));
      ARROW_ASSIGN_OR_RAISE(std::string found, listing_.schema(named));
      *schema = std::make_unique<fl::SchemaResult>(std::move(found));
      return arrow::Status::OK();
    });
  }

  arrow::Status DoGet(const fl::ServerCallContext& context, const fl::Ticket& request,
                      std::unique_ptr<fl::FlightDataStream>* stream) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(const Ticket ticket,
                            verify_ticket(key_, request.ticket, ask_.wall_s()));
      ARROW_ASSIGN_OR_RAISE(auto messages, gets_.open(ticket, claims.is_agent()));
      ARROW_ASSIGN_OR_RAISE(auto schema, gets_.schema(*messages, ticket));
      *stream = std::make_unique<GetStream>(ask_, std::move(messages), std::move(schema),
                                            claims.is_agent(), is_tap(ticket), inside_, watch_,
                                            context);
      return arrow::Status::OK();
    });
  }

  arrow::Status DoPut(const fl::ServerCallContext& context,
                      std::unique_ptr<fl::FlightMessageReader> reader,
                      std::unique_ptr<fl::FlightMetadataWriter> writer) override {
    return call(context, Scope::WRITE, [&](const Claims& claims) -> arrow::Status {
      ClientReader rows(*reader, *awaited_of(context));
      if (streams_ != nullptr && is_stream(reader->descriptor())) {
        ARROW_RETURN_NOT_OK(check_elements(reader->descriptor().path));
        return streams_->take(reader->descriptor().path, claims.is_agent(), rows, *writer,
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
      return handlers_->put(put, claims.is_agent(), rows, *writer, cancelled(context));
    });
  }

  arrow::Status DoExchange(const fl::ServerCallContext& context,
                           std::unique_ptr<fl::FlightMessageReader> reader,
                           std::unique_ptr<fl::FlightMessageWriter> writer) override {
    return call(context, Scope::WRITE, [&](const Claims& claims) -> arrow::Status {
      const fl::FlightDescriptor& descriptor = reader->descriptor();
      if (!handlers_->exchange || descriptor.path.empty() || descriptor.path[0] != "exchange") {
        return fault("NotFoundError",
                     "nothing here answers do_exchange; use do_get or do_put");
      }
      ARROW_RETURN_NOT_OK(claims.require(Scope::AGENT, "an exchange"));
      ARROW_ASSIGN_OR_RAISE(const AnyPath path, path_of(descriptor));
      const auto* exchange = std::get_if<ExchangePath>(&path);
      if (exchange == nullptr) return fault("NotFoundError", "this descriptor is no exchange");
      ClientReader credits(*reader, *awaited_of(context));
      return handlers_->exchange(*exchange, claims.is_agent(), credits, *writer,
                                 cancelled(context));
    });
  }

  arrow::Status ListActions(const fl::ServerCallContext& context,
                            std::vector<fl::ActionType>* actions) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      return actions_.offered(claims).Value(actions);
    });
  }

  arrow::Status DoAction(const fl::ServerCallContext& context, const fl::Action& action,
                         std::unique_ptr<fl::ResultStream>* result) override {
    return call(context, Scope::READ, [&](const Claims& claims) {
      ARROW_ASSIGN_OR_RAISE(std::string answer, actions_.run(claims, action));
      std::vector<fl::Result> answers{fl::Result(arrow::Buffer::FromString(std::move(answer)))};
      *result = std::make_unique<fl::SimpleResultStream>(std::move(answers));
      return arrow::Status::OK();
    });
  }

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

  template <class Work>
  arrow::Status call(const fl::ServerCallContext& context, Scope scope, Work&& work) const {
    const OurTurn turn(awaited_of(context));
    const arrow::Result<Claims> claims = claims_of(context);
    arrow::Status status = claims.status();
    if (status.ok()) status = claims->require(scope, "this call");
    if (status.ok()) status = work(*claims);
    return ask_.outward(status);
  }

  // How the caller wants to be shown things: by headers of the call, else by its session.
  arrow::Result<View> view_of(const fl::ServerCallContext& context, const Claims& claims) const {
    View view = actions_.view(claims, view_);
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
    return [&context, inside = inside_] { return context.is_cancelled() || inside->closed(); };
  }

  Asking ask_;
  std::string key_;
  std::shared_ptr<const Handlers> handlers_;
  std::shared_ptr<StreamDoor> streams_;
  const Limits limits_;
  std::shared_ptr<Inside> inside_;
  std::shared_ptr<Watch> watch_;
  std::shared_ptr<arrow::MemoryManager> intake_;
  std::shared_ptr<Handshake> handshake_;
  std::shared_ptr<Admission> admission_;
  std::shared_ptr<Gate> gate_;
  View view_;
  Finder finder_;
  Listing listing_;
  Polling polling_;
  Gets gets_;
  Actions actions_;
  std::unique_ptr<Door> door_;
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
