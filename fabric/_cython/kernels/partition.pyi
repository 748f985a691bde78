import numpy as np
from numpy.typing import NDArray

N_KEY_GROUPS: int

def partition_of(hashes: NDArray[np.uint64], n_partitions: int) -> NDArray[np.uint16]: ...
def partition_rows(
    hashes: NDArray[np.uint64], n_partitions: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
