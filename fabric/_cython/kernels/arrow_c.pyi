from typing import final

import pyarrow as pa

@final
class ExportedArray:
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class Rows:
    def __new__(cls, array: pa.LargeBinaryArray) -> Rows: ...
