from typing import final

import numpy as np
from numpy.typing import NDArray

_Int64 = NDArray[np.int64]
_Bytes = NDArray[np.uint8]

def row_watermarks(
    times: _Int64,
    valid: _Bytes | None,
    greatest: int,
    bound_us: int,
    future_us: int,
    ceiling_us: int,
) -> tuple[_Int64, _Bytes, int, int]: ...

@final
class MinTracker:
    def __init__(self, n_channels: int = 0) -> None: ...
    @property
    def n_channels(self) -> int: ...
    def add(self) -> int: ...
    def update(self, channel: int, time_us: int) -> bool: ...
    def minimum(self) -> int: ...
    def times(self) -> _Int64: ...
