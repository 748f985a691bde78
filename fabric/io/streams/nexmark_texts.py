"""The texts of Nexmark: names, places, channels, and letters that stand for more of them.

One job: pools of texts by seed; entry 0 of each is empty. Their lengths make a person about 200
bytes, an auction 500 and a bid 100, as Nexmark has it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

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
    """Channels with an address each; four are hot."""
    channels = [*HOT_CHANNELS, *(f"channel-{i}" for i in range(N_CHANNELS))]
    paths = zip(*(_letters(rng, len(channels), 3, 5) for _ in range(2)), strict=True)
    urls = [f"https://www.nexmark.com/{a}/{b}/item.htm?c={i}" for i, (a, b) in enumerate(paths)]
    return {"channel": _pool(channels), "url": _pool(urls)}


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
