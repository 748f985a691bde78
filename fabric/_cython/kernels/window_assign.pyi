import numpy as np
from numpy.typing import NDArray

_Int64 = NDArray[np.int64]

def assign_tumbling(times: _Int64, size_us: int, offset_us: int) -> tuple[_Int64, _Int64]: ...
def assign_sliding(
    times: _Int64, size_us: int, slide_us: int, offset_us: int
) -> tuple[_Int64, _Int64, _Int64]: ...
def assign_cumulative(
    times: _Int64, size_us: int, step_us: int, offset_us: int
) -> tuple[_Int64, _Int64, _Int64]: ...
def window_spans(
    times: _Int64,
    watermarks: _Int64 | None,
    reached: int,
    size_us: int,
    step_us: int,
    offset_us: int,
    cumulated: bool,
    lateness_us: int,
) -> tuple[_Int64, _Int64, int]: ...
