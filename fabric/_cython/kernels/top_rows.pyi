import numpy as np
from numpy.typing import NDArray

_Ints = NDArray[np.int64]

def top_rows(codes: _Ints, keys: _Ints, n_groups: int, n: int) -> NDArray[np.bool_]: ...
