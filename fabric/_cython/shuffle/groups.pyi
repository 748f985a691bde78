from typing import final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

@final
class Groups:
    def __new__(cls, keys: pa.Schema) -> Groups: ...
    def number(self, keys: pa.RecordBatch) -> NDArray[np.uint32]: ...
    def __len__(self) -> int: ...
