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
    __slots__ = ("memory", "run", "rows", "accepted", "begin", "step")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    run: Run
    rows: Rows
    accepted: Accepted
    begin: Begin
    step: Step
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., run: _Optional[_Union[Run, _Mapping]] = ..., rows: _Optional[_Union[Rows, _Mapping]] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., begin: _Optional[_Union[Begin, _Mapping]] = ..., step: _Optional[_Union[Step, _Mapping]] = ...) -> None: ...

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

class Begin(_message.Message):
    __slots__ = ("fragment", "job", "stage", "task", "n_tasks", "attempt", "scratch", "splits", "stream", "copies")
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    N_TASKS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    fragment: bytes
    job: str
    stage: int
    task: int
    n_tasks: int
    attempt: int
    scratch: str
    splits: _containers.RepeatedCompositeFieldContainer[Splits]
    stream: _control_pb2.StreamDeploy
    copies: str
    def __init__(self, fragment: _Optional[bytes] = ..., job: _Optional[str] = ..., stage: _Optional[int] = ..., task: _Optional[int] = ..., n_tasks: _Optional[int] = ..., attempt: _Optional[int] = ..., scratch: _Optional[str] = ..., splits: _Optional[_Iterable[_Union[Splits, _Mapping]]] = ..., stream: _Optional[_Union[_control_pb2.StreamDeploy, _Mapping]] = ..., copies: _Optional[str] = ...) -> None: ...

class Step(_message.Message):
    __slots__ = ("split", "rows", "split_end", "watermark", "now_us", "edge_end", "barrier", "complete", "abort", "close", "slowest", "more", "replaying")
    SPLIT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SPLIT_END_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    EDGE_END_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    SLOWEST_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    REPLAYING_FIELD_NUMBER: _ClassVar[int]
    split: str
    rows: EdgeRows
    split_end: SplitEnd
    watermark: EdgeWatermark
    now_us: int
    edge_end: int
    barrier: int
    complete: int
    abort: int
    close: Close
    slowest: SlowestSplit
    more: More
    replaying: bool
    def __init__(self, split: _Optional[str] = ..., rows: _Optional[_Union[EdgeRows, _Mapping]] = ..., split_end: _Optional[_Union[SplitEnd, _Mapping]] = ..., watermark: _Optional[_Union[EdgeWatermark, _Mapping]] = ..., now_us: _Optional[int] = ..., edge_end: _Optional[int] = ..., barrier: _Optional[int] = ..., complete: _Optional[int] = ..., abort: _Optional[int] = ..., close: _Optional[_Union[Close, _Mapping]] = ..., slowest: _Optional[_Union[SlowestSplit, _Mapping]] = ..., more: _Optional[_Union[More, _Mapping]] = ..., replaying: _Optional[bool] = ...) -> None: ...

class Splits(_message.Message):
    __slots__ = ("edge", "names")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    edge: int
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, edge: _Optional[int] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class SplitEnd(_message.Message):
    __slots__ = ("edge", "name")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    edge: int
    name: str
    def __init__(self, edge: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class EdgeRows(_message.Message):
    __slots__ = ("edge", "batch", "into")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    INTO_FIELD_NUMBER: _ClassVar[int]
    edge: int
    batch: Placed
    into: str
    def __init__(self, edge: _Optional[int] = ..., batch: _Optional[_Union[Placed, _Mapping]] = ..., into: _Optional[str] = ...) -> None: ...

class EdgeWatermark(_message.Message):
    __slots__ = ("edge", "time_us")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    edge: int
    time_us: int
    def __init__(self, edge: _Optional[int] = ..., time_us: _Optional[int] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class More(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SlowestSplit(_message.Message):
    __slots__ = ("node", "time_us")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    node: str
    time_us: int
    def __init__(self, node: _Optional[str] = ..., time_us: _Optional[int] = ...) -> None: ...

class FromSlot(_message.Message):
    __slots__ = ("memory", "take", "put", "done", "failed", "stepped", "stored", "let_go")
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    TAKE_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    STEPPED_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    LET_GO_FIELD_NUMBER: _ClassVar[int]
    memory: Memory
    take: Take
    put: Put
    done: Done
    failed: _control_pb2.ErrorDetail
    stepped: Stepped
    stored: Stored
    let_go: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, memory: _Optional[_Union[Memory, _Mapping]] = ..., take: _Optional[_Union[Take, _Mapping]] = ..., put: _Optional[_Union[Put, _Mapping]] = ..., done: _Optional[_Union[Done, _Mapping]] = ..., failed: _Optional[_Union[_control_pb2.ErrorDetail, _Mapping]] = ..., stepped: _Optional[_Union[Stepped, _Mapping]] = ..., stored: _Optional[_Union[Stored, _Mapping]] = ..., let_go: _Optional[_Iterable[int]] = ...) -> None: ...

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

class Stepped(_message.Message):
    __slots__ = ("rows", "sides", "watermarks", "done", "held_back", "states", "counted", "slowest", "lingers", "has_more", "is_full")
    class WatermarksEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SIDES_FIELD_NUMBER: _ClassVar[int]
    WATERMARKS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    SLOWEST_FIELD_NUMBER: _ClassVar[int]
    LINGERS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    IS_FULL_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Placed]
    sides: _containers.RepeatedCompositeFieldContainer[SideRows]
    watermarks: _containers.ScalarMap[str, int]
    done: bool
    held_back: _containers.RepeatedCompositeFieldContainer[Splits]
    states: _containers.RepeatedScalarFieldContainer[str]
    counted: _containers.RepeatedCompositeFieldContainer[Counted]
    slowest: _containers.RepeatedCompositeFieldContainer[SlowestSplit]
    lingers: bool
    has_more: bool
    is_full: bool
    def __init__(self, rows: _Optional[_Iterable[_Union[Placed, _Mapping]]] = ..., sides: _Optional[_Iterable[_Union[SideRows, _Mapping]]] = ..., watermarks: _Optional[_Mapping[str, int]] = ..., done: _Optional[bool] = ..., held_back: _Optional[_Iterable[_Union[Splits, _Mapping]]] = ..., states: _Optional[_Iterable[str]] = ..., counted: _Optional[_Iterable[_Union[Counted, _Mapping]]] = ..., slowest: _Optional[_Iterable[_Union[SlowestSplit, _Mapping]]] = ..., lingers: _Optional[bool] = ..., has_more: _Optional[bool] = ..., is_full: _Optional[bool] = ...) -> None: ...

class SideRows(_message.Message):
    __slots__ = ("tag", "rows")
    TAG_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    tag: str
    rows: _containers.RepeatedCompositeFieldContainer[Placed]
    def __init__(self, tag: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[Placed, _Mapping]]] = ...) -> None: ...

class Counted(_message.Message):
    __slots__ = ("node", "name", "n")
    NODE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    node: str
    name: str
    n: int
    def __init__(self, node: _Optional[str] = ..., name: _Optional[str] = ..., n: _Optional[int] = ...) -> None: ...

class Stored(_message.Message):
    __slots__ = ("checkpoint", "node", "files", "failed", "rows")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    node: str
    files: _containers.RepeatedCompositeFieldContainer[File]
    failed: _control_pb2.ErrorDetail
    rows: int
    def __init__(self, checkpoint: _Optional[int] = ..., node: _Optional[str] = ..., files: _Optional[_Iterable[_Union[File, _Mapping]]] = ..., failed: _Optional[_Union[_control_pb2.ErrorDetail, _Mapping]] = ..., rows: _Optional[int] = ...) -> None: ...

class File(_message.Message):
    __slots__ = ("name", "size", "crc32c", "content")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    size: int
    crc32c: int
    content: str
    def __init__(self, name: _Optional[str] = ..., size: _Optional[int] = ..., crc32c: _Optional[int] = ..., content: _Optional[str] = ...) -> None: ...
