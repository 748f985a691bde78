from libc.stdint cimport int64_t, uint32_t, uint64_t


cdef extern from "nexmark.hpp" namespace "fabric" nogil:
    const int64_t EPOCH_EVENTS, EPOCH_PERSONS, EPOCH_AUCTIONS, EPOCH_BIDS
    const int PRICE_BITS

    cppclass Epochs:
        uint64_t seed
        int64_t first, stride, n, pitch, lead, start_us, event_rate

    cppclass BidColumns:
        int64_t* auction
        int64_t* bidder
        int64_t* price
        int64_t* at_us
        uint32_t* channel
        uint32_t* extra

    cppclass PersonColumns:
        int64_t* id
        int64_t* at_us
        uint32_t* name
        uint32_t* email
        uint32_t* card
        uint32_t* city
        uint32_t* state
        uint32_t* extra

    cppclass PersonPools:
        int64_t names, emails, cards, cities, states, extras

    cppclass AuctionColumns:
        int64_t* id
        int64_t* initial_bid
        int64_t* reserve
        int64_t* at_us
        int64_t* expires_us
        int64_t* seller
        int64_t* category
        uint32_t* item
        uint32_t* description
        uint32_t* extra

    cppclass AuctionPools:
        int64_t items, descriptions, extras

    void bid_columns(const Epochs& of, const int64_t* prices, int64_t n_extras,
                     const BidColumns& out) except +
    void person_columns(const Epochs& of, const PersonPools& pools,
                        const PersonColumns& out) noexcept
    void auction_columns(const Epochs& of, const int64_t* prices, const AuctionPools& pools,
                         const AuctionColumns& out) noexcept
