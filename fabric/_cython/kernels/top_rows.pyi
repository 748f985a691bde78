from typing import final

import numpy as np
from numpy.typing import NDArray

@final
class TopRows:
    def __new__(cls, n: int) -> TopRows: ...
    def among(
        self, codes: NDArray[np.uint32], keys: NDArray[np.int64], n_groups: int
    ) -> NDArray[np.bool_]: ...
