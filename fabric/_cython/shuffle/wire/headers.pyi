from collections.abc import Iterable
from typing import Any, Self, final

import pyarrow as pa

def encode(
    *,
    job: str,
    edge: int,
    producer: int,
    attempt: int = 0,
    epoch: int = 0,
    sequence: int = 0,
    partitions: Iterable[tuple[int, int]] = (),
    crc32c: int = 0,
    event: int = 0,
    event_value: int = 0,
    total_rows: int = 0,
    total_bytes: int = 0,
) -> bytes: ...
def decode(data: bytes) -> dict[str, Any]: ...
def sha256(data: bytes) -> bytes: ...
def hmac_sha256(key: bytes, data: bytes) -> bytes: ...
def unpacked_bytes(metadata: bytes, body: bytes) -> int: ...
def check_schema(message: bytes) -> None: ...

@final
class WireCheck:
    def __new__(
        cls,
        *,
        job: str,
        edge: int,
        producers: Iterable[tuple[int, int]],
        partition: int | None = None,
        node: str = "",
        agent: str = "",
        checksums: bool = True,
    ) -> Self: ...
    @property
    def duplicates(self) -> int: ...
    def accept(self, header: bytes, batch: pa.RecordBatch | None) -> bool: ...
    def finish(self) -> None: ...
