from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

def hash_columns(
    arrays: Sequence[pa.Array | pa.ChunkedArray], seed: int = 0
) -> NDArray[np.uint64]: ...
