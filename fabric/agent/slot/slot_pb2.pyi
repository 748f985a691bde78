from fabric.control import control_pb2 as _control_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Memory(_message.Message):
    __slots__ = ("opened", "freed", "closed")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    FREED_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    opened: _containers.RepeatedCompositeFieldContainer[Chunk]
    freed: _containers.RepeatedScalarFieldContainer[int]
    closed: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, opened: _Optional[_Iterable[_Union[Chunk, _Mapping]]] = ..., freed: _Optional[_Iterable[int]] = ..., closed: _Optional[_Iterable[int]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("number", "size")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    number: int
    size: int
    def __init__(self, number: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class Placed(_message.Message):
    __slots__ = ("chunk", "begin", "size")
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    chunk: int
    begin: int
    size: int
    def __init__(self, chunk: _Optional[int] = ..., begin: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class ToSlot(_message.Message):
    __slots__ = ("memory", "run", "rows", "accepted")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    run: Run
    rows: Rows
    accepted: Accepted
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., rows: _Optional[_Union[Rows, _Mapping]] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("task", "fragment", "kind", "inputs", "scans", "target_partitions", "pool_bytes", "spill_folders")
    TASK_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SCANS_FIELD_NUMBER: _ClassVar[int]
    TARGET_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    POOL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILL_FOLDERS_FIELD_NUMBER: _ClassVar[int]
    task: str
    fragment: bytes
    kind: _control_pb2.StageKind
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    scans: _containers.RepeatedCompositeFieldContainer[_control_pb2.ScanSplits]
    target_partitions: int
    pool_bytes: int
    spill_folders: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task: _Optional[str] = ..., fragment: _Optional[bytes] = ..., kind: _Optional[_Union[_control_pb2.StageKind, str]] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ..., scans: _Optional[_Iterable[_Union[_control_pb2.ScanSplits, _Mapping]]] = ..., target_partitions: _Optional[int] = ..., pool_bytes: _Optional[int] = ..., spill_folders: _Optional[_Iterable[str]] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("edge", "held", "n_parts", "n_rows", "n_bytes")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    N_PARTS_FIELD_NUMBER: _ClassVar[int]
    N_ROWS_FIELD_NUMBER: _ClassVar[int]
    N_BYTES_FIELD_NUMBER: _ClassVar[int]
    edge: int
    held: bool
    n_parts: int
    n_rows: int
    n_bytes: int
    def __init__(self, edge: _Optional[int] = ..., held: _Optional[bool] = ..., n_parts: _Optional[int] = ..., n_rows: _Optional[int] = ..., n_bytes: _Optional[int] = ...) -> None: ...

class Rows(_message.Message):
    __slots__ = ("batches", "edge", "of_edge")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    OF_EDGE_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[Placed]
    edge: int
    of_edge: bool
    def __init__(self, batches: _Optional[_Iterable[_Union[Placed, _Mapping]]] = ..., edge: _Optional[int] = ..., of_edge: _Optional[bool] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FromSlot(_message.Message):
    __slots__ = ("memory", "take", "put", "done", "failed", "let_go")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    LET_GO_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    take: Take
    put: Put
    done: Done
    failed: _control_pb2.ErrorDetail
    let_go: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., take: _Optional[_Union[Take, _Mapping]] = ..., put: _Optional[_Union[Put, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., failed: _Optional[_Union[_control_pb2.ErrorDetail, _Mapping]] = ..., let_go: _Optional[_Iterable[int]] = ...) -> None: ...

class Put(_message.Message):
    __slots__ = ("batch", "waits")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    batch: Placed
    waits: bool
    def __init__(self, batch: _Optional[_Union[Placed, _Mapping]] = ..., waits: _Optional[bool] = ...) -> None: ...

class Take(_message.Message):
    __slots__ = ("reader", "items", "part", "split")
    READER_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    reader: int
    items: Items
    part: Part
    split: ReadSplit
    def __init__(self, reader: _Optional[int] = ..., items: _Optional[_Union[Items, _Mapping]] = ..., part: _Optional[_Union[Part, _Mapping]] = ..., split: _Optional[_Union[ReadSplit, _Mapping]] = ...) -> None: ...

class Items(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Part(_message.Message):
    __slots__ = ("edge", "part")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    PART_FIELD_NUMBER: _ClassVar[int]
    edge: int
    part: int
    def __init__(self, edge: _Optional[int] = ..., part: _Optional[int] = ...) -> None: ...

class ReadSplit(_message.Message):
    __slots__ = ("scan_id", "split", "columns")
    SCAN_ID_FIELD_NUMBER: _ClassVar[int]
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    scan_id: int
    split: int
    columns: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, scan_id: _Optional[int] = ..., split: _Optional[int] = ..., columns: _Optional[_Iterable[str]] = ...) -> None: ...

class Done(_message.Message):
    __slots__ = ("lingers",)
    LINGERS_FIELD_NUMBER: _ClassVar[int]
    lingers: bool
    def __init__(self, lingers: _Optional[bool] = ...) -> None: ...
