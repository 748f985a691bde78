// The version of gRPC, out of a library that hides its symbols: `grpc_version_string()`.
//
// One job: ask where a build shares gRPC; else find the text among libarrow_flight's constants.
#include "grpc/abi.hpp"

#include <arrow/flight/types.h>
#include <dlfcn.h>
#include <link.h>

#include <string_view>

namespace fabric {
namespace {

// NUL, two or three digits, ".0.0", NUL: as gRPC's core writes its versions.
std::string_view version_among(std::string_view constants) {
  constexpr std::string_view END(".0.0\0", 5);
  for (size_t at = constants.find(END); at != constants.npos; at = constants.find(END, at + 1)) {
    size_t begin = at;
    while (begin > 0 && constants[begin - 1] >= '0' && constants[begin - 1] <= '9') --begin;
    const bool whole = begin > 0 && constants[begin - 1] == '\0';
    if (whole && at - begin >= 2 && at - begin <= 3) {
      return constants.substr(begin, at - begin + END.size() - 1);
    }
  }
  return {};
}

struct LibrarySearch {
  uintptr_t inside;  // an address of the library
  std::string_view version;
};

// For dl_iterate_phdr; what is neither code nor written to are constants.
int search_library(dl_phdr_info* library, size_t, void* given) {
  auto& search = *static_cast<LibrarySearch*>(given);
  const auto segment = [&](int at) -> std::string_view {
    const auto& header = library->dlpi_phdr[at];
    if (header.p_type != PT_LOAD) return {};
    return {reinterpret_cast<const char*>(library->dlpi_addr + header.p_vaddr), header.p_memsz};
  };
  bool ours = false;
  for (int at = 0; at < library->dlpi_phnum; ++at) {
    const std::string_view bytes = segment(at);
    ours = ours || search.inside - reinterpret_cast<uintptr_t>(bytes.data()) < bytes.size();
  }
  for (int at = 0; ours && search.version.empty() && at < library->dlpi_phnum; ++at) {
    if (library->dlpi_phdr[at].p_flags == PF_R) search.version = version_among(segment(at));
  }
  return ours;
}

}  // namespace

std::string installed_grpc() {
  const auto inside = reinterpret_cast<void*>(&arrow::flight::Location::ReuseConnection);
  Dl_info library{};
  if (::dladdr(inside, &library) == 0) return "";
  if (void* handle = ::dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD); handle != nullptr) {
    void* told = ::dlsym(handle, "grpc_version_string");
    const std::string version =
        told == nullptr ? "" : reinterpret_cast<const char* (*)()>(told)();
    ::dlclose(handle);
    if (!version.empty()) return version;
  }
  LibrarySearch search{reinterpret_cast<uintptr_t>(inside), {}};
  ::dl_iterate_phdr(&search_library, &search);
  return std::string(search.version);
}

}  // namespace fabric
