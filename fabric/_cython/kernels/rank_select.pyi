import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

def select_ranks(keys: Ints, offsets: Ints, ranks: Ints) -> tuple[Ints, Ints]: ...
