from collections.abc import Iterable

import pyarrow as pa

from fabric._cython.codecs.codec import Decoder, Encoder

class CsvDecoder(Decoder):
    def __init__(
        self,
        schema: pa.Schema,
        columns: Iterable[str] | None = None,
        delimiter: str = ",",
        quote: str = '"',
        null_values: Iterable[str] = (),
        fill: bool = False,
    ) -> None: ...

class CsvEncoder(Encoder):
    def __init__(
        self, schema: pa.Schema, delimiter: str = ",", quote_style: str = "necessary"
    ) -> None: ...

class TextDecoder(Decoder):
    def __init__(self, schema: pa.Schema) -> None: ...

class TextEncoder(Encoder):
    def __init__(self, schema: pa.Schema) -> None: ...
