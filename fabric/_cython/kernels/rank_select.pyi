import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]

def select_ranks(keys: _Ints, offsets: _Ints, ranks: _Ints) -> tuple[_Ints, _Ints]: ...
