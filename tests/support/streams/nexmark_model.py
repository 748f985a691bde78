"""Nexmark's events one by one, in Python's whole numbers: the oracle of the kernel.

One job: `events`, the rows of each split of a bounded `NexmarkStream`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from fabric.io.readers.nexmark import pools_of
from fabric.plan.sources import NexmarkStream

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
ODD = (0xD6E8FEB86659FD93, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3)
BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


def model(source: NexmarkStream) -> dict[str, list[Row]]:
    """The rows of each split, in order."""
    found: dict[str, list[Row]] = {f"{i}-of-{source.n_splits}": [] for i in range(source.n_splits)}
    for number in range(source.n_events):
        split = f"{number // 50 % source.n_splits}-of-{source.n_splits}"
        kind, row = _event(source, number)
        if source.table == kind:
            found[split].append(row)
        elif source.table == "event":
            kinds = ("person", "auction", "bid")
            found[split].append(
                {"event_type": kinds.index(kind), **dict.fromkeys(kinds), kind: row,
                 "dateTime": row["dateTime"]}
            )  # fmt: skip
    return found


def _event(source: NexmarkStream, number: int) -> tuple[str, Row]:
    epoch, event = divmod(number, 50)
    salt = _mix((source.seed + GOLDEN) & MASK)
    word = _mix((salt + number * GOLDEN) & MASK)
    events = epoch * 50
    at_us = (
        source.start_us + events * 10**6 // source.event_rate + event * 10**6 // source.event_rate
    )
    if event == 0:
        return "person", _person(source, word, epoch, at_us)
    if event < 4:
        return "auction", _auction(source, word, epoch, event, at_us)
    return "bid", _bid(source, word, epoch, at_us)


def _person(source: NexmarkStream, word: int, epoch: int, at_us: int) -> Row:
    texts = _texts(source, "person")
    words = (word, *(_again(word, odd) for odd in ODD), _again(word, ODD[0] ^ ODD[1] ^ 1))
    names = ("name", "emailAddress", "creditCard", "city", "state", "extra")
    chosen = {name: _text(texts[name], bits) for name, bits in zip(names, words, strict=True)}
    return {"id": 1000 + epoch, **{k: chosen[k] for k in names[:-1]}, "dateTime": _time(at_us),
            "extra": chosen["extra"]}  # fmt: skip


def _auction(source: NexmarkStream, word: int, epoch: int, event: int, at_us: int) -> Row:
    texts, second = _texts(source, "auction"), _again(word, ODD[1])
    first = _price(_again(word, ODD[0]))
    open_us = 1 + 2 * (100 * 50 // 3) * 10**6 // source.event_rate
    any_seller = _active(_again(word, ODD[3]), epoch)
    return {
        "id": 1000 + epoch * 3 + event - 1,
        "itemName": _text(texts["itemName"], _again(second, ODD[0])),
        "description": _text(texts["description"], _again(second, ODD[1])),
        "initialBid": first,
        "reserve": first + _price(second),
        "dateTime": _time(at_us),
        "expires": _time(at_us + 1 + _below(_again(word, ODD[2]), min(open_us, 2**32 - 1))),
        "seller": 1000 + epoch // 100 * 100 if word & 3 else any_seller,
        "category": 10 + _below((word << 8) & MASK, 5),
        "extra": _text(texts["extra"], _again(second, ODD[2])),
    }


def _bid(source: NexmarkStream, word: int, epoch: int, at_us: int) -> Row:
    texts, last = _texts(source, "bid"), epoch * 3 + 2
    least = max(0, last - 100)
    auction = least + _below(_again(word, ODD[0]), last - least + 1 + 10)
    bidder = 1000 + epoch // 100 * 100 + 1
    channel = 5 + _below((word << 16) & MASK, 10_000)
    channel = 1 + ((word >> 4) & 3) if word & 8 else channel
    return {
        "auction": 1000 + (last // 100 * 100 if word & 1 else auction),
        "bidder": bidder if word & 6 else _active(_again(word, ODD[1]), epoch),
        "price": _price(_again(word, ODD[2])),
        "channel": texts["channel"][channel],
        "url": texts["url"][channel],
        "dateTime": _time(at_us),
        "extra": _text(texts["extra"], _again(word, ODD[3])),
    }


def _texts(source: NexmarkStream, table: str) -> dict[str, list[str]]:
    key = (source.seed, table)
    if key not in _POOLS:
        _POOLS[key] = {k: v.to_pylist() for k, v in pools_of(source.seed)[table].items()}
    return _POOLS[key]


_POOLS: dict[tuple[int, str], dict[str, list[str]]] = {}


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def _again(word: int, odd: int) -> int:
    word = word * odd & MASK
    return word ^ (word >> 32)


def _below(word: int, n: int) -> int:
    return (word >> 32) * n >> 32


def _text(texts: list[str], word: int) -> str:
    return texts[1 + _below(word, len(texts) - 1)]


def _active(word: int, epoch: int) -> int:
    active = min(epoch + 1, 1000)
    return epoch + 1 - active + _below(word, active + 10) + 1000


def _price(word: int) -> int:
    step, rest = divmod(word >> 32, 2**20)
    low, high = (round(10 ** (6 * i / 4096) * 100) for i in (step, step + 1))
    return low + ((high - low) * rest >> 20)


def _time(at_us: int) -> datetime:
    return BEGIN + timedelta(microseconds=at_us)
