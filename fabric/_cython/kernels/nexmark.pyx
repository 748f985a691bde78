"""Columns of Nexmark events: persons, auctions and bids of whole epochs of 50 events.

One job: numbers, and which text of a pool each row has; the texts are `io/readers/nexmark.py`'s.
Every value is a function of (seed, event number). O(rows) time, GIL released throughout.
"""

import numpy as np

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

PRICE_STEPS = (1 << PRICE_BITS) + 1


cdef Epochs epochs_of(seed, first, stride, n, layout, start_us, event_rate) except *:
    """Checked epochs, to be laid out as `layout` (rows between two epochs, rows before)."""
    if n < 0 or first < 0 or stride < 1 or event_rate < 1:
        raise ValueError(
            f"epochs need first >= 0, stride >= 1, n >= 0 and event_rate >= 1, got {first}, "
            f"{stride}, {n}, {event_rate}")
    if (first + stride * n) >= 1 << 56:
        raise ValueError(f"there are fewer than 2**56 epochs, got {first + stride * n}")
    cdef Epochs epochs
    epochs.seed = seed & ((1 << 64) - 1)
    epochs.first, epochs.stride, epochs.n = first, stride, n
    epochs.pitch, epochs.lead = layout
    epochs.start_us, epochs.event_rate = start_us, event_rate
    return epochs


cdef int64_t* numbers(dict out, str name, wanted, int64_t n_rows) except? NULL:
    """A new column of numbers, or NULL when it is not wanted."""
    cdef int64_t[::1] view
    if name not in wanted or not n_rows:
        return NULL
    view = out[name] = np.zeros(n_rows, dtype=np.int64)
    return &view[0]


cdef uint32_t* texts(dict out, str name, wanted, int64_t n_rows) except? NULL:
    """A new column of numbers of texts, or NULL when it is not wanted."""
    cdef uint32_t[::1] view
    if name not in wanted or not n_rows:
        return NULL
    view = out[name] = np.zeros(n_rows, dtype=np.uint32)
    return &view[0]


cdef tuple layout_of(bint dense, int64_t first_event, int64_t count):
    if dense:
        return count, 0
    return EPOCH_EVENTS, first_event


def check_prices(const int64_t[::1] prices not None):
    """Raise `ValueError` unless there is a price for each step."""
    if prices.shape[0] != PRICE_STEPS:
        raise ValueError(f"there are {PRICE_STEPS} prices, got {prices.shape[0]}")


def bids(seed, first, stride, n, start_us, event_rate, wanted, const int64_t[::1] prices not None,
         n_extras, *, dense=True):
    """The wanted columns of the bids of `n` epochs `first`, `first + stride`, ...

    Parameters
    ----------
    seed
        Any integer; its lower 64 bits count.
    first, stride, n
        Which epochs.
    start_us, event_rate
        Event time of event 0, and events a second of event time.
    wanted
        Some of auction, bidder, price, dateTime (int64), channel, extra (uint32: numbers of texts).
    prices
        int64, shape (PRICE_STEPS,), not decreasing: the prices at even steps of probability.
    n_extras
        How many texts `extra` has; they are numbered from 1.
    dense
        46 rows an epoch; else 50, of which the first four are 0.
    Returns
    -------
    columns
        By name, an array each.
    Raises
    ------
    ValueError
        If a number is out of its range.
    Examples
    --------
    >>> import numpy as np
    >>> prices = np.arange(PRICE_STEPS)
    >>> bids(0, 0, 1, 1, 0, 10_000, {"dateTime"}, prices, 1)["dateTime"][:3].tolist()
    [400, 500, 600]
    """
    check_prices(prices)
    cdef int64_t lead = EPOCH_PERSONS + EPOCH_AUCTIONS
    cdef Epochs epochs = epochs_of(
        seed, first, stride, n, layout_of(dense, lead, EPOCH_BIDS), start_us, event_rate)
    cdef int64_t n_rows = epochs.n * epochs.pitch, extras = n_extras
    cdef BidColumns to
    out = {}
    to.auction = numbers(out, "auction", wanted, n_rows)
    to.bidder = numbers(out, "bidder", wanted, n_rows)
    to.price = numbers(out, "price", wanted, n_rows)
    to.at_us = numbers(out, "dateTime", wanted, n_rows)
    to.channel = texts(out, "channel", wanted, n_rows)
    to.extra = texts(out, "extra", wanted, n_rows)
    with nogil:
        bid_columns(epochs, &prices[0], extras, to)
    return out


def persons(seed, first, stride, n, start_us, event_rate, wanted, pools, *, dense=True):
    """The wanted columns of the persons of some epochs; see `bids`.

    `wanted` are some of id, dateTime (int64), name, emailAddress, creditCard, city, state, extra
    (uint32). `pools` says how many texts each of the latter has.
    """
    cdef Epochs epochs = epochs_of(
        seed, first, stride, n, layout_of(dense, 0, EPOCH_PERSONS), start_us, event_rate)
    cdef int64_t n_rows = epochs.n * epochs.pitch
    cdef PersonColumns to
    cdef PersonPools of
    of.names, of.emails, of.cards = pools["name"], pools["emailAddress"], pools["creditCard"]
    of.cities, of.states, of.extras = pools["city"], pools["state"], pools["extra"]
    out = {}
    to.id = numbers(out, "id", wanted, n_rows)
    to.at_us = numbers(out, "dateTime", wanted, n_rows)
    to.name = texts(out, "name", wanted, n_rows)
    to.email = texts(out, "emailAddress", wanted, n_rows)
    to.card = texts(out, "creditCard", wanted, n_rows)
    to.city = texts(out, "city", wanted, n_rows)
    to.state = texts(out, "state", wanted, n_rows)
    to.extra = texts(out, "extra", wanted, n_rows)
    with nogil:
        person_columns(epochs, of, to)
    return out


def auctions(seed, first, stride, n, start_us, event_rate, wanted,
             const int64_t[::1] prices not None, pools, *, dense=True):
    """The wanted columns of the auctions of some epochs; see `bids`.

    `wanted` are some of id, initialBid, reserve, dateTime, expires, seller, category (int64),
    itemName, description, extra (uint32). `pools` says how many texts each of the latter has.
    """
    check_prices(prices)
    cdef Epochs epochs = epochs_of(
        seed, first, stride, n, layout_of(dense, EPOCH_PERSONS, EPOCH_AUCTIONS), start_us,
        event_rate)
    cdef int64_t n_rows = epochs.n * epochs.pitch
    cdef AuctionColumns to
    cdef AuctionPools of
    of.items, of.descriptions = pools["itemName"], pools["description"]
    of.extras = pools["extra"]
    out = {}
    to.id = numbers(out, "id", wanted, n_rows)
    to.initial_bid = numbers(out, "initialBid", wanted, n_rows)
    to.reserve = numbers(out, "reserve", wanted, n_rows)
    to.at_us = numbers(out, "dateTime", wanted, n_rows)
    to.expires_us = numbers(out, "expires", wanted, n_rows)
    to.seller = numbers(out, "seller", wanted, n_rows)
    to.category = numbers(out, "category", wanted, n_rows)
    to.item = texts(out, "itemName", wanted, n_rows)
    to.description = texts(out, "description", wanted, n_rows)
    to.extra = texts(out, "extra", wanted, n_rows)
    with nogil:
        auction_columns(epochs, &prices[0], of, to)
    return out
