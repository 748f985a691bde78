from typing import Self, final

import pyarrow as pa

from fabric._cython.codecs.codec import Decoder, Encoder

@final
class JsonDecoder(Decoder):
    def __new__(cls, schema: pa.Schema, framed: bool = False) -> Self: ...

@final
class JsonEncoder(Encoder):
    def __new__(cls, schema: pa.Schema, prefix: bytes = b"") -> Self: ...
