// Nexmark events as numbers: one epoch is 50 events, 1 person, 3 auctions, 46 bids.
//
// One job: the columns of whole epochs, each value a function of (seed, event number). Row i of a
// column of epoch k lies at `k * pitch + lead + i`, so that tables may be dense or side by side.
// Texts are numbers of entries of pools, from 1 (0 is no text). A column that is null is left out.
#pragma once
#include <cstdint>

namespace fabric {

constexpr int64_t EPOCH_EVENTS = 50, EPOCH_PERSONS = 1, EPOCH_AUCTIONS = 3, EPOCH_BIDS = 46;
constexpr int PRICE_BITS = 12;  // the table of prices has 2^12 + 1 entries

struct Epochs {
  uint64_t seed;
  int64_t first, stride, n, pitch, lead;  // epochs first, first + stride, …
  int64_t start_us, event_rate;
};

struct BidColumns {
  int64_t *auction, *bidder, *price, *at_us;
  uint32_t *channel, *extra;
};

struct PersonColumns {
  int64_t *id, *at_us;
  uint32_t *name, *email, *card, *city, *state, *extra;
};

struct PersonPools {
  int64_t names, emails, cards, cities, states, extras;
};

struct AuctionColumns {
  int64_t *id, *initial_bid, *reserve, *at_us, *expires_us, *seller, *category;
  uint32_t *item, *description, *extra;
};

struct AuctionPools {
  int64_t items, descriptions, extras;
};

void bid_columns(const Epochs& of, const int64_t* prices, int64_t n_extras,
                 const BidColumns& out);
void person_columns(const Epochs& of, const PersonPools& pools, const PersonColumns& out);
void auction_columns(const Epochs& of, const int64_t* prices, const AuctionPools& pools,
                     const AuctionColumns& out);

}  // namespace fabric
