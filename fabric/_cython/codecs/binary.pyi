from collections.abc import Callable, Sequence
from typing import Protocol, Self, final, type_check_only

import pyarrow as pa

from fabric._cython.codecs.codec import Decoder, Encoder

@type_check_only
class AvroProgram(Protocol):
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
        program: AvroProgram | None = None,
        *,
        lookup: Callable[[int], AvroProgram | str] | None = None,
    ) -> Self: ...

@final
class AvroEncoder(Encoder):
    def __new__(cls, schema: pa.Schema, program: AvroProgram, *, header: bytes = b"") -> Self: ...

@type_check_only
class ProtobufField(Protocol):
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
class ProtobufProgram(Protocol):
    @property
    def messages(self) -> Sequence[tuple[Sequence[ProtobufField], Sequence[int]]]: ...
    @property
    def enums(self) -> Sequence[tuple[bool, Sequence[tuple[str, int]]]]: ...

@final
class ProtobufDecoder(Decoder):
    def __new__(
        cls,
        schema: pa.Schema,
        program: ProtobufProgram | None = None,
        *,
        lookup: Callable[[int, tuple[int, ...]], ProtobufProgram | str] | None = None,
    ) -> Self: ...

@final
class ProtobufEncoder(Encoder):
    def __new__(
        cls, schema: pa.Schema, program: ProtobufProgram, *, header: bytes = b""
    ) -> Self: ...
