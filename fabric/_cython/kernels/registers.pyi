import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int32]
Ints = NDArray[np.int64]

N_REGISTERS: int

def register_codes(hashes: NDArray[np.uint64]) -> Codes: ...
def merge_registers(given: Codes, offsets: Ints) -> tuple[Codes, Ints]: ...
