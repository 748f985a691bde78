import pyarrow as pa

from fabric._cython.codecs.codec import Decoder, Encoder

class JsonDecoder(Decoder):
    def __init__(self, schema: pa.Schema, framed: bool = False) -> None: ...

class JsonEncoder(Encoder):
    def __init__(self, schema: pa.Schema, prefix: bytes = b"") -> None: ...
