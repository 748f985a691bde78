from collections.abc import Callable
from typing import Protocol

import pyarrow as pa

from fabric._cython.codecs.codec import Decoder, Encoder

class Program(Protocol):
    @property
    def nodes(self) -> tuple[tuple[int, int, int, int, tuple[int, ...]], ...]: ...
    @property
    def texts(self) -> tuple[bytes, ...]: ...
    @property
    def root(self) -> int: ...

class AvroDecoder(Decoder):
    def __init__(
        self,
        schema: pa.Schema,
        program: Program | None = None,
        *,
        lookup: Callable[[int], Program | str] | None = None,
    ) -> None: ...

class AvroEncoder(Encoder):
    def __init__(self, schema: pa.Schema, program: Program, *, header: bytes = b"") -> None: ...
