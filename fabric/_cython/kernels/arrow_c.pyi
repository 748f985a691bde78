from typing import final

@final
class ExportedArray:
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...
