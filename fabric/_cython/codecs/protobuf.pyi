from collections.abc import Callable, Sequence
from typing import Protocol, Self, final, type_check_only

import pyarrow as pa

from fabric._cython.codecs.codec import Decoder, Encoder

@type_check_only
class Field(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def type(self) -> int: ...
    @property
    def shape(self) -> int: ...
    @property
    def is_repeated(self) -> bool: ...
    @property
    def has_presence(self) -> bool: ...
    @property
    def is_required(self) -> bool: ...
    @property
    def is_packed(self) -> bool: ...
    @property
    def column(self) -> int: ...
    @property
    def message(self) -> int: ...
    @property
    def enum(self) -> int: ...
    @property
    def oneof(self) -> int: ...

@type_check_only
class Program(Protocol):
    @property
    def messages(self) -> Sequence[tuple[Sequence[Field], Sequence[int]]]: ...
    @property
    def enums(self) -> Sequence[tuple[bool, Sequence[tuple[str, int]]]]: ...

@final
class ProtobufDecoder(Decoder):
    def __new__(
        cls,
        schema: pa.Schema,
        program: Program | None = None,
        *,
        lookup: Callable[[int, tuple[int, ...]], Program | str] | None = None,
    ) -> Self: ...

@final
class ProtobufEncoder(Encoder):
    def __new__(cls, schema: pa.Schema, program: Program, *, header: bytes = b"") -> Self: ...
