from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Prices = NDArray[np.int64]
_Columns = dict[str, NDArray[Any]]

PRICE_STEPS: int

def check_prices(prices: _Prices) -> None: ...
def bids(
    seed: int,
    first: int,
    stride: int,
    n: int,
    start_us: int,
    event_rate: int,
    wanted: Collection[str],
    prices: _Prices,
    n_extras: int,
    *,
    dense: bool = True,
) -> _Columns: ...
def persons(
    seed: int,
    first: int,
    stride: int,
    n: int,
    start_us: int,
    event_rate: int,
    wanted: Collection[str],
    pools: Mapping[str, int],
    *,
    dense: bool = True,
) -> _Columns: ...
def auctions(
    seed: int,
    first: int,
    stride: int,
    n: int,
    start_us: int,
    event_rate: int,
    wanted: Collection[str],
    prices: _Prices,
    pools: Mapping[str, int],
    *,
    dense: bool = True,
) -> _Columns: ...
