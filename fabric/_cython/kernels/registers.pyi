import numpy as np
from numpy.typing import NDArray

_Codes = NDArray[np.int32]
_Ints = NDArray[np.int64]

N_REGISTERS: int

def register_codes(hashes: NDArray[np.uint64]) -> _Codes: ...
def merge_registers(given: _Codes, offsets: _Ints) -> tuple[_Codes, _Ints]: ...
