import numpy as np
from numpy.typing import NDArray

_Bits = NDArray[np.uint8]
_Hashes = NDArray[np.uint64]
_Ints = NDArray[np.int64]

def add_to_filter(bits: _Bits, hashes: _Hashes) -> None: ...
def in_filter(bits: _Bits, hashes: _Hashes) -> NDArray[np.bool_]: ...
def in_blocks(
    hashes: _Hashes, firsts: _Hashes, lasts: _Hashes, filters: _Bits, ends: _Ints
) -> NDArray[np.bool_]: ...
def positions(
    rows: _Hashes,
    row_times: _Ints,
    hashes: _Hashes,
    times: _Ints | None = None,
    since: int = ...,
    removed: _Bits | None = None,
    begin: int = 0,
) -> _Ints: ...
