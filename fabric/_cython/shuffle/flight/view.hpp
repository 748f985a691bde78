// How a client wants to be shown what there is: options of its session, or headers of a call.
//
// One job: their names and words. Taps of pipelined edges may be lossy or lossless; endpoints may
// say where their rows lie, or that this connection serves them all, or nothing, which means the
// same to clients that are older than `arrow-flight-reuse-connection`.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "wire/ticket.hpp"

namespace fabric {

enum class Places { ALL, REUSE, NONE };

struct View {
  TapMode tap = TapMode::LOSSY;
  Places places = Places::ALL;
};

constexpr std::string_view OWN_OPTIONS = "fabric.";  // how the names of ours begin

struct ViewOption {
  const char *name, *words;
  bool (*set)(View&, std::string_view word);  // false: no word of it
};

inline bool set_tap(View& view, std::string_view word) {
  if (word != "lossy" && word != "lossless") return false;
  view.tap = word == "lossy" ? TapMode::LOSSY : TapMode::LOSSLESS;
  return true;
}

inline bool set_places(View& view, std::string_view word) {
  if (word != "all" && word != "reuse" && word != "none") return false;
  view.places = word == "all" ? Places::ALL : word == "reuse" ? Places::REUSE : Places::NONE;
  return true;
}

constexpr std::array VIEW_OPTIONS = {
    ViewOption{"fabric.tap", "'lossy' or 'lossless'", &set_tap},
    ViewOption{"fabric.locations", "'all', 'reuse' or 'none'", &set_places},
};

inline const ViewOption* view_option(std::string_view name) {
  for (const ViewOption& option : VIEW_OPTIONS) {
    if (name == option.name) return &option;
  }
  return nullptr;
}

}  // namespace fabric
