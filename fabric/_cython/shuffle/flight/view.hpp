// How a client wants to be shown what there is: options of its session, or headers of a call.
//
// One job: their names and words. Taps of pipelined edges may be lossy or lossless; endpoints may
// say where their rows lie, or that this connection serves them all, or nothing, which means the
// same to clients that are older than `arrow-flight-reuse-connection`.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace fabric {

enum class TapMode : uint32_t;  // wire/ticket.hpp

enum class Places { ALL, REUSE, NONE };

struct View {
  View();  // taps are lossy

  TapMode tap;
  Places places = Places::ALL;
};

constexpr std::string_view OWN_OPTIONS = "fabric.";  // how the names of ours begin

struct ViewOption {
  const char *name, *words;
  bool (*set)(View&, std::string_view word);  // false: no word of it
};

bool set_tap(View& view, std::string_view word);
bool set_places(View& view, std::string_view word);

inline constexpr std::array VIEW_OPTIONS = {
    ViewOption{"fabric.tap", "'lossy' or 'lossless'", &set_tap},
    ViewOption{"fabric.locations", "'all', 'reuse' or 'none'", &set_places},
};

// The one of that name, or null.
const ViewOption* view_option(std::string_view name);

}  // namespace fabric
