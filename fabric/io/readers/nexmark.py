"""Nexmark's auction house: persons, auctions, bids, 1 : 3 : 46.

One job: the cursor of a `NexmarkStream`. Numbers come from the kernel `nexmark`; texts are taken
from pools made once a seed (`pools_of`): entry 0 of each is empty, and their lengths make a person
about 200 bytes, an auction 500 and a bid 110, about as Nexmark has it. Of 50 events (an epoch) the
first is a person, then come 3 auctions and 46 bids; split `i` of `n` has epochs i, i + n, ... so
that all splits run through event time side by side. Table "event" has all three as structs, of
which all but one are null.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric._cython.kernels import nexmark as kernel
from fabric._cython.kernels.take import take
from fabric.clock import Clock
from fabric.errors import ConfigError
from fabric.io.readers.generator import n_rows_of
from fabric.io.readers.protocol import SplitsOf, numbered
from fabric.io.readers.reader import MadeCursor, Pace, StreamReader
from fabric.plan.sources import NexmarkStream, Split

EPOCH = 50
TABLES = {"person": (0, 1), "auction": (1, 3), "bid": (4, 46), "event": (0, EPOCH)}
"""Which events of an epoch are whose: the first, and how many."""
_TIME = pa.timestamp("us", tz="UTC")
_EPOCHS_MAX = 1 << 12
_Epochs = tuple[int, int, int, int, int, int]
"""Seed, first, stride, number, start, rate: what the kernel asks for."""

PERSON = pa.schema(
    [
        ("id", pa.int64()), ("name", pa.string()), ("emailAddress", pa.string()),
        ("creditCard", pa.string()), ("city", pa.string()), ("state", pa.string()),
        ("dateTime", _TIME), ("extra", pa.string()),
    ]
)  # fmt: skip
AUCTION = pa.schema(
    [
        ("id", pa.int64()), ("itemName", pa.string()), ("description", pa.string()),
        ("initialBid", pa.int64()), ("reserve", pa.int64()), ("dateTime", _TIME),
        ("expires", _TIME), ("seller", pa.int64()), ("category", pa.int64()),
        ("extra", pa.string()),
    ]
)  # fmt: skip
BID = pa.schema(
    [
        ("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64()),
        ("channel", pa.string()), ("url", pa.string()), ("dateTime", _TIME),
        ("extra", pa.string()),
    ]
)  # fmt: skip
EVENT = pa.schema(
    [
        ("event_type", pa.int32()), ("person", pa.struct(list(PERSON))),
        ("auction", pa.struct(list(AUCTION))), ("bid", pa.struct(list(BID))), ("dateTime", _TIME),
    ]
)  # fmt: skip
SCHEMAS = {"person": PERSON, "auction": AUCTION, "bid": BID, "event": EVENT}


def check(source: NexmarkStream) -> None:
    """Raise `ConfigError` for a table or numbers that mean nothing."""
    if source.table not in TABLES:
        raise ConfigError(f"Nexmark has no table {source.table!r}; it has {', '.join(TABLES)}")
    for name in ("events_per_s", "n_events", "start_us"):
        if getattr(source, name) < 0:
            raise ConfigError(f"{name} of Nexmark can't be negative: {getattr(source, name)}")
    for name in ("n_splits", "event_rate"):
        if getattr(source, name) < 1:
            raise ConfigError(f"{name} of Nexmark must be positive, got {getattr(source, name)}")


def stream_schema(source: NexmarkStream) -> pa.Schema:
    """The columns of its table."""
    check(source)
    return SCHEMAS[source.table]


def enumerate_splits(source: NexmarkStream, splits_of: SplitsOf) -> list[Split]:
    """As many splits as `source.n_splits` says."""
    check(source)
    return numbered(source.n_splits)


def open_reader(source: NexmarkStream, schema: pa.Schema, clock: Clock, *_: object) -> StreamReader:
    """A reader with one cursor per split."""
    return StreamReader("nexmark", lambda split: NexmarkCursor(source, schema, split, clock), clock)


def n_rows(source: NexmarkStream, index: int) -> int:
    """How many rows split `index` has, where the stream has `n_events` in all."""
    first, count = TABLES[source.table]
    whole_epochs, rest = divmod(source.n_events, EPOCH)
    rows = n_rows_of(whole_epochs, index, source.n_splits) * count
    if whole_epochs % source.n_splits == index:
        rows += min(max(0, rest - first), count)
    return rows


def rows(
    source: NexmarkStream, wanted: list[str], index: int, begin: int, end: int
) -> pa.RecordBatch:
    """Rows `begin` to `end` of split `index`, the columns `wanted`.

    >>> rows(NexmarkStream("bid", n_splits=1), ["auction"], 0, 0, 2).num_rows
    2
    """
    count = TABLES[source.table][1]
    first, n_epochs = begin // count, -(-end // count) - begin // count
    epochs = (source.seed, index + first * source.n_splits, source.n_splits, n_epochs,
              source.start_us, source.event_rate)  # fmt: skip
    if source.table == "event":
        columns = _events(epochs, wanted)
    else:
        columns = _table(source.table, epochs, wanted, dense=True)
    fields = [SCHEMAS[source.table].field(name) for name in wanted]
    batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
    return batch.slice(begin - first * count, end - begin)


class NexmarkCursor(MadeCursor):
    """One split; see `Cursor`."""

    def __init__(self, source: NexmarkStream, columns: pa.Schema, split: Split, clock: Clock):
        self._source, self._wanted = source, columns.names
        self._index, count = int(split.uri.partition("-")[0]), TABLES[source.table][1]
        # A row of the table stands for as many events as it takes to have one.
        rate = source.events_per_s * count / EPOCH
        pace = Pace(rate, self._index, source.n_splits, clock) if rate else None
        end = n_rows(source, self._index) if source.n_events else None
        super().__init__(end, _EPOCHS_MAX * count, pace)

    def _made(self, begin: int, end: int) -> pa.RecordBatch:
        return rows(self._source, self._wanted, self._index, begin, end)


def _table(table: str, epochs: _Epochs, wanted: list[str], *, dense: bool) -> list[pa.Array]:
    pools, prices = pools_of(epochs[0]), _prices()
    sizes = {name: len(texts) - 1 for name, texts in pools[table].items()}
    asked = {"channel" if name == "url" else name for name in wanted}
    if table == "bid":
        found = kernel.bids(*epochs, asked, prices, sizes["extra"], dense=dense)
    elif table == "auction":
        found = kernel.auctions(*epochs, asked, prices, sizes, dense=dense)
    else:
        found = kernel.persons(*epochs, asked, sizes, dense=dense)
    return [_column(SCHEMAS[table].field(name), found, pools[table]) for name in wanted]


def _column(field: pa.Field, found: dict[str, NDArray[Any]], pool: Pools) -> pa.Array:
    if field.name in pool:
        return take(pool[field.name], found["channel" if field.name == "url" else field.name])
    values = found[field.name]
    return pa.Array.from_buffers(field.type, len(values), [None, pa.py_buffer(values)])


def _events(epochs: _Epochs, wanted: list[str]) -> list[pa.Array]:
    n_epochs = epochs[3]
    columns = []
    for name in wanted:
        if name == "event_type":
            columns.append(pa.array(np.tile(_KINDS, n_epochs)))
        elif name == "dateTime":
            columns.append(_times(epochs))
        else:
            fields = SCHEMAS[name].names
            children = _table(name, epochs, fields, dense=False)
            is_null = pa.array(np.tile(_KIND_OF[name] != _KINDS, n_epochs))
            columns.append(
                pa.StructArray.from_arrays(children, fields=list(SCHEMAS[name]), mask=is_null)
            )
    return columns


def _times(epochs: _Epochs) -> pa.Array:
    """Event times of all events: each kind has its own places, the others are 0."""
    total = np.zeros(epochs[3] * EPOCH, dtype=np.int64)
    for name in _KIND_OF:
        (times,) = _table(name, epochs, ["dateTime"], dense=False)
        total += times.view(pa.int64()).to_numpy()
    return pa.array(total).view(_TIME)


@lru_cache(maxsize=1)
def _prices() -> NDArray[np.int64]:
    """10^(6 u) units at even steps of u, in cents."""
    steps = np.linspace(0.0, 6.0, kernel.PRICE_STEPS)
    prices: NDArray[np.int64] = np.rint(np.power(10.0, steps) * 100).astype(np.int64)
    return prices


_KIND_OF = {"person": 0, "auction": 1, "bid": 2}
_KINDS = np.array([0] + [1] * 3 + [2] * 46, dtype=np.int32)


Pools = dict[str, pa.Array]

FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter",
               "Walter")  # fmt: skip
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones",
              "Noris")  # fmt: skip
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond",
          "Seattle", "Kent", "Cheyenne")  # fmt: skip
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
N_CHANNELS = 10_000
_POOL = 4_096


@lru_cache(maxsize=4)
def pools_of(seed: int) -> dict[str, Pools]:
    """By table and column, the texts; ``pools_of(seed)["bid"]["channel"][1]`` is the hottest.

    >>> pools_of(0)["bid"]["channel"][:3].to_pylist()
    ['', 'Google', 'Facebook']
    """
    rng = np.random.default_rng([seed & (2**64 - 1), 20])
    names = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    return {
        "person": {
            "name": _pool(names),
            "emailAddress": _pool(_joined(rng, "@", ".com", 7, 5)),
            "creditCard": _pool(_cards(rng)),
            "city": _pool(CITIES),
            "state": _pool(STATES),
            "extra": _pool(_letters(rng, _POOL, 80, 120)),
        },
        "auction": {
            "itemName": _pool(_letters(rng, _POOL, 10, 30)),
            "description": _pool(_letters(rng, _POOL, 70, 130)),
            "extra": _pool(_letters(rng, _POOL, 240, 360)),
        },
        "bid": {**_channels(rng), "extra": _pool(_letters(rng, _POOL, 0, 16))},
    }


def _channels(rng: np.random.Generator) -> Pools:
    """Channels with an address each; four are hot. Nine of ten others have a number in theirs."""
    channels = [*HOT_CHANNELS, *(f"channel-{i}" for i in range(N_CHANNELS))]
    paths = [_letters(rng, len(channels), 3, 5) for _ in range(3)]
    folders = ["/".join(path) for path in zip(*paths, strict=True)]
    numbers = [*[""] * len(HOT_CHANNELS), *map(_number_of_channel, range(N_CHANNELS))]
    urls = [
        f"https://www.nexmark.com/{folder}/item.htm?query=1{number}"
        for folder, number in zip(folders, numbers, strict=True)
    ]
    return {"channel": _pool(channels), "url": _pool(urls)}


def _number_of_channel(index: int) -> str:
    return f"&channel_id={index * 7_919 % 1_000_003}" if index % 10 else ""


def _pool(texts: list[str] | tuple[str, ...]) -> pa.Array:
    return pa.array(["", *texts], pa.string())


def _joined(rng: np.random.Generator, between: str, end: str, n: int, m: int) -> list[str]:
    pairs = zip(_letters(rng, _POOL, n, n), _letters(rng, _POOL, m, m), strict=True)
    return [f"{a}{between}{b}{end}" for a, b in pairs]


def _cards(rng: np.random.Generator) -> list[str]:
    return [" ".join(f"{n:04d}" for n in row) for row in rng.integers(0, 10_000, (_POOL, 4))]


def _letters(rng: np.random.Generator, n: int, least: int, most: int) -> list[str]:
    """`n` texts of `least` to `most` small letters."""
    lengths = rng.integers(least, most + 1, n)
    letters = rng.integers(ord("a"), ord("z") + 1, int(lengths.sum()), dtype=np.uint8).tobytes()
    ends = np.cumsum(lengths)
    text = letters.decode("ascii")
    return [text[end - length : end] for length, end in zip(lengths, ends, strict=True)]
