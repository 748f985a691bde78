from collections.abc import Iterable
from typing import Self, final

import pyarrow as pa

from fabric._cython.codecs.codec import Decoder, Encoder

@final
class JsonDecoder(Decoder):
    def __new__(cls, schema: pa.Schema, framed: bool = False) -> Self: ...

@final
class JsonEncoder(Encoder):
    def __new__(cls, schema: pa.Schema, prefix: bytes = b"") -> Self: ...

@final
class CsvDecoder(Decoder):
    def __new__(
        cls,
        schema: pa.Schema,
        columns: Iterable[str] | None = None,
        delimiter: str = ",",
        quote: str = '"',
        null_values: Iterable[str] = (),
        fill: bool = False,
    ) -> Self: ...

@final
class CsvEncoder(Encoder):
    def __new__(
        cls, schema: pa.Schema, delimiter: str = ",", quote_style: str = "necessary"
    ) -> Self: ...

@final
class TextDecoder(Decoder):
    def __new__(cls, schema: pa.Schema) -> Self: ...

@final
class TextEncoder(Encoder):
    def __new__(cls, schema: pa.Schema) -> Self: ...
