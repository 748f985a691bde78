import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]

def moments(values: _Floats, offsets: _Ints) -> _Floats: ...
def co_moments(x: _Floats, y: _Floats, offsets: _Ints) -> _Floats: ...
