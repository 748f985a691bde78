import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

def add_partition_bytes(
    batch: pa.RecordBatch, offsets: NDArray[np.int64], totals: NDArray[np.int64]
) -> None: ...
