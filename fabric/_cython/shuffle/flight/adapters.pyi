from typing import final

import pyarrow as pa

from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric.flight.adapted import Adapted

def adapt(
    handlers: HandlerSet,
    face: Adapted,
    *,
    get: bool = True,
    fetch: bool = True,
    put: bool = True,
) -> None: ...

@final
class PutReader:
    @property
    def schema(self) -> pa.Schema: ...
    def read(self) -> tuple[pa.RecordBatch | None, bytes | None] | None: ...
    def is_cancelled(self) -> bool: ...
