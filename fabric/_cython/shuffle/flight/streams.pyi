from typing import final

import pyarrow as pa

@final
class StreamPuts:
    def __init__(self) -> None: ...
    def open(
        self,
        name: str,
        schema: pa.Schema,
        *,
        split: int,
        n_splits: int,
        bytes_max: int,
        at_once: bool,
    ) -> StreamQueue: ...

@final
class StreamQueue:
    def listen(self) -> None: ...
    def take(self) -> tuple[str, int, pa.RecordBatch] | None: ...
    def acknowledge(self, writer: str, count: int) -> None: ...
    def seek(self, writer: str, count: int) -> None: ...
    def close(self) -> None: ...
