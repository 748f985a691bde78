// Reads what an exchange of a job holds from any agent of a fabric, with Arrow's C++ library alone.
//
//     read_partitions grpc+tcp://127.0.0.1:6124 JOB PATH        (the token in FABRIC_TOKEN)
#include <arrow/api.h>
#include <arrow/flight/api.h>

#include <cstdlib>
#include <iostream>

namespace fl = arrow::flight;

arrow::Status run(const std::string& url, const std::string& job, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const fl::Location agent, fl::Location::Parse(url));
  ARROW_ASSIGN_OR_RAISE(auto client, fl::FlightClient::Connect(agent));
  const char* token = std::getenv("FABRIC_TOKEN");
  fl::FlightCallOptions options;
  options.headers.emplace_back("authorization", std::string("Bearer ") + (token ? token : ""));

  const auto descriptor = fl::FlightDescriptor::Path({"job", job, path});
  ARROW_ASSIGN_OR_RAISE(const auto info, client->GetFlightInfo(options, descriptor));
  for (const fl::FlightEndpoint& endpoint : info->endpoints()) {
    // An agent also serves what others hold; endpoint.locations says where it lies.
    ARROW_ASSIGN_OR_RAISE(auto stream, client->DoGet(options, endpoint.ticket));
    ARROW_ASSIGN_OR_RAISE(const auto rows, stream->ToTable());
    std::cout << "partition " << endpoint.app_metadata << ": " << rows->num_rows() << " rows of "
              << rows->schema()->ToString() << "\n";
  }
  return client->Close();
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: read_partitions URL JOB PATH\n";
    return 2;
  }
  const arrow::Status status = run(argv[1], argv[2], argv[3]);
  if (!status.ok()) std::cerr << status.ToString() << "\n";
  return status.ok() ? 0 : 1;
}
