// How Nexmark's persons, auctions and bids come out of the number of an event.
//
// One job: the bodies of nexmark.hpp.
#include "nexmark.hpp"

#include <cstddef>
#include <vector>

namespace fabric {

namespace {

constexpr int64_t FIRST_ID = 1000, FIRST_CATEGORY = 10, N_CATEGORIES = 5;
constexpr int64_t ACTIVE_PEOPLE = 1000, IN_FLIGHT_AUCTIONS = 100, LEAD = 10, HOT_STRIDE = 100;
constexpr int64_t N_HOT_CHANNELS = 4, N_CHANNELS = 10000;

// SplitMix64's finaliser.
inline uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// Another word out of a mixed one; its upper half is as good.
inline uint64_t again(uint64_t word, uint64_t odd) {
  word *= odd;
  return word ^ (word >> 32);
}
constexpr uint64_t ODD_1 = 0xD6E8FEB86659FD93ULL, ODD_2 = 0xA0761D6478BD642FULL,
                   ODD_3 = 0xE7037ED1A0B428DBULL, ODD_4 = 0x8EBC6AF09C88C6E3ULL;

// A number below n (at most 2^32) from the upper half of `word`.
inline int64_t below(uint64_t word, int64_t n) {
  return static_cast<int64_t>(((word >> 32) * static_cast<uint64_t>(n)) >> 32);
}

// Calls f(place, word, epoch, event in the epoch) for `count` events of each epoch.
template <typename F>
inline void each_event(const Epochs& of, int64_t first_event, int64_t count, const F& f) {
  const uint64_t salt = mix(of.seed + 0x9E3779B97F4A7C15ULL);
  for (int64_t k = 0; k < of.n; ++k) {
    const int64_t epoch = of.first + k * of.stride;
    const int64_t place = k * of.pitch + of.lead;
    const auto number = static_cast<uint64_t>(epoch * EPOCH_EVENTS + first_event);
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t word =
          mix(salt + (number + static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15ULL);
      f(place + i, word, epoch, first_event + i);
    }
  }
}

// Event time; it never goes back with the event's number.
inline void event_times(const Epochs& of, int64_t first_event, int64_t count, int64_t* out) {
  int64_t within[EPOCH_EVENTS];
  for (int64_t i = 0; i < EPOCH_EVENTS; ++i) within[i] = i * 1000000 / of.event_rate;
  for (int64_t k = 0; k < of.n; ++k) {
    const int64_t events = (of.first + k * of.stride) * EPOCH_EVENTS;
    const int64_t begin = of.start_us + events / of.event_rate * 1000000 +
                          events % of.event_rate * 1000000 / of.event_rate;
    int64_t* place = out + k * of.pitch + of.lead;
    for (int64_t i = 0; i < count; ++i) place[i] = begin + within[first_event + i];
  }
}

// From 1 to a million, even by logarithm, in cents; `prices` are the values at 2^12 + 1 steps.
inline int64_t price_of(uint64_t word, const int64_t* prices) {
  const uint64_t bits = word >> 32;
  const int64_t* at = prices + (bits >> (32 - PRICE_BITS));
  const uint64_t rest = bits & ((1ULL << (32 - PRICE_BITS)) - 1);
  return at[0] + static_cast<int64_t>((static_cast<uint64_t>(at[1] - at[0]) * rest) >>
                                      (32 - PRICE_BITS));
}

// Three of four sellers and bidders are the newest of the round hundreds.
inline int64_t active_person(uint64_t word, int64_t epoch) {
  const int64_t n_people = epoch + 1;
  const int64_t active = n_people < ACTIVE_PEOPLE ? n_people : ACTIVE_PEOPLE;
  return n_people - active + below(word, active + LEAD) + FIRST_ID;
}

}  // namespace

void bid_columns(const Epochs& of, const int64_t* prices, int64_t n_extras,
                 const BidColumns& out) {
  constexpr int64_t FIRST = EPOCH_PERSONS + EPOCH_AUCTIONS, COUNT = EPOCH_BIDS;
  std::vector<uint64_t> words(static_cast<size_t>(of.n * of.pitch));
  each_event(of, FIRST, COUNT,
             [&](int64_t at, uint64_t word, int64_t, int64_t) { words[at] = word; });
  const auto column = [&](auto* values, const auto& value) {
    if (values == nullptr) return;
    for (int64_t k = 0; k < of.n; ++k) {
      const int64_t epoch = of.first + k * of.stride, begin = k * of.pitch + of.lead;
      for (int64_t at = begin; at < begin + COUNT; ++at) values[at] = value(words[at], epoch);
    }
  };
  column(out.auction, [](uint64_t word, int64_t epoch) {
    const int64_t last = epoch * EPOCH_AUCTIONS + EPOCH_AUCTIONS - 1;
    const int64_t least = last > IN_FLIGHT_AUCTIONS ? last - IN_FLIGHT_AUCTIONS : 0;
    const int64_t any = least + below(again(word, ODD_1), last - least + 1 + LEAD);
    return FIRST_ID + ((word & 1) != 0 ? last / HOT_STRIDE * HOT_STRIDE : any);
  });
  column(out.bidder, [](uint64_t word, int64_t epoch) {
    const int64_t any = active_person(again(word, ODD_2), epoch);
    return (word & 6) != 0 ? FIRST_ID + epoch / HOT_STRIDE * HOT_STRIDE + 1 : any;
  });
  column(out.price,
         [prices](uint64_t word, int64_t) { return price_of(again(word, ODD_3), prices); });
  column(out.channel, [](uint64_t word, int64_t) {
    const int64_t any = 1 + N_HOT_CHANNELS + below(word << 16, N_CHANNELS);
    return static_cast<uint32_t>((word & 8) != 0 ? 1 + ((word >> 4) & 3) : any);
  });
  column(out.extra, [n_extras](uint64_t word, int64_t) {
    return static_cast<uint32_t>(1 + below(again(word, ODD_4), n_extras));
  });
  if (out.at_us != nullptr) event_times(of, FIRST, COUNT, out.at_us);
}

void person_columns(const Epochs& of, const PersonPools& pools, const PersonColumns& out) {
  each_event(of, 0, EPOCH_PERSONS, [&](int64_t at, uint64_t word, int64_t epoch, int64_t) {
    if (out.id != nullptr) out.id[at] = FIRST_ID + epoch;
    const auto text = [at](uint32_t* column, uint64_t bits, int64_t n) {
      if (column != nullptr) column[at] = static_cast<uint32_t>(1 + below(bits, n));
    };
    text(out.name, word, pools.names);
    text(out.email, again(word, ODD_1), pools.emails);
    text(out.card, again(word, ODD_2), pools.cards);
    text(out.city, again(word, ODD_3), pools.cities);
    text(out.state, again(word, ODD_4), pools.states);
    text(out.extra, again(word, ODD_1 ^ ODD_2 ^ 1), pools.extras);
  });
  if (out.at_us != nullptr) event_times(of, 0, EPOCH_PERSONS, out.at_us);
}

void auction_columns(const Epochs& of, const int64_t* prices, const AuctionPools& pools,
                     const AuctionColumns& out) {
  constexpr int64_t FIRST = EPOCH_PERSONS, COUNT = EPOCH_AUCTIONS;
  const int64_t events = IN_FLIGHT_AUCTIONS * EPOCH_EVENTS / EPOCH_AUCTIONS;
  const int64_t open_us = 1 + 2 * events * 1000000 / of.event_rate;
  if (out.at_us != nullptr) event_times(of, FIRST, COUNT, out.at_us);
  if (out.expires_us != nullptr) event_times(of, FIRST, COUNT, out.expires_us);
  each_event(of, FIRST, COUNT, [&](int64_t at, uint64_t word, int64_t epoch, int64_t event) {
    const int64_t first = price_of(again(word, ODD_1), prices);
    const uint64_t second = again(word, ODD_2);
    if (out.id != nullptr) out.id[at] = FIRST_ID + epoch * COUNT + event - FIRST;
    if (out.initial_bid != nullptr) out.initial_bid[at] = first;
    if (out.reserve != nullptr) out.reserve[at] = first + price_of(second, prices);
    if (out.expires_us != nullptr) {
      out.expires_us[at] += 1 + below(again(word, ODD_3), open_us < UINT32_MAX ? open_us
                                                                                : UINT32_MAX);
    }
    if (out.seller != nullptr) {
      const int64_t any = active_person(again(word, ODD_4), epoch);
      out.seller[at] = (word & 3) != 0 ? FIRST_ID + epoch / HOT_STRIDE * HOT_STRIDE : any;
    }
    if (out.category != nullptr) {
      out.category[at] = FIRST_CATEGORY + below(word << 8, N_CATEGORIES);
    }
    const auto text = [at](uint32_t* column, uint64_t bits, int64_t n) {
      if (column != nullptr) column[at] = static_cast<uint32_t>(1 + below(bits, n));
    };
    text(out.item, again(second, ODD_1), pools.items);
    text(out.description, again(second, ODD_2), pools.descriptions);
    text(out.extra, again(second, ODD_3), pools.extras);
  });
}

}  // namespace fabric
