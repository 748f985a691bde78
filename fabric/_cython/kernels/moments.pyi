import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

def moments(values: Floats, offsets: Ints) -> Floats: ...
def co_moments(x: Floats, y: Floats, offsets: Ints) -> Floats: ...
