from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

N_KEY_GROUPS: int

def hash_columns(
    arrays: Sequence[pa.Array | pa.ChunkedArray], seed: int = 0
) -> NDArray[np.uint64]: ...
def partition_of(hashes: NDArray[np.uint64], n_partitions: int) -> NDArray[np.uint16]: ...
def partition_rows(
    hashes: NDArray[np.uint64], n_partitions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
