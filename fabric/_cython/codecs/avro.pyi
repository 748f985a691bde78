from collections.abc import Callable
from typing import Protocol, Self, final, type_check_only

import pyarrow as pa

from fabric._cython.codecs.codec import Decoder, Encoder

@type_check_only
class Program(Protocol):
    @property
    def nodes(self) -> tuple[tuple[int, int, int, int, tuple[int, ...]], ...]: ...
    @property
    def texts(self) -> tuple[bytes, ...]: ...
    @property
    def root(self) -> int: ...

@final
class AvroDecoder(Decoder):
    def __new__(
        cls,
        schema: pa.Schema,
        program: Program | None = None,
        *,
        lookup: Callable[[int], Program | str] | None = None,
    ) -> Self: ...

@final
class AvroEncoder(Encoder):
    def __new__(cls, schema: pa.Schema, program: Program, *, header: bytes = b"") -> Self: ...
