from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Plan(_message.Message):
    __slots__ = ("version", "nodes", "root", "exprs", "types", "schemas", "config")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    EXPRS_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    version: int
    nodes: _containers.RepeatedCompositeFieldContainer[Node]
    root: int
    exprs: _containers.RepeatedCompositeFieldContainer[Expr]
    types: bytes
    schemas: _containers.RepeatedScalarFieldContainer[bytes]
    config: _containers.RepeatedCompositeFieldContainer[Config]
    def __init__(self, version: _Optional[int] = ..., nodes: _Optional[_Iterable[_Union[Node, _Mapping]]] = ..., root: _Optional[int] = ..., exprs: _Optional[_Iterable[_Union[Expr, _Mapping]]] = ..., types: _Optional[bytes] = ..., schemas: _Optional[_Iterable[bytes]] = ..., config: _Optional[_Iterable[_Union[Config, _Mapping]]] = ...) -> None: ...

class Config(_message.Message):
    __slots__ = ("path", "parallelism", "exchange", "buffer_batches", "compression", "latency_us", "state", "state_memory")
    PATH_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    BUFFER_BATCHES_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    path: str
    parallelism: int
    exchange: str
    buffer_batches: int
    compression: str
    latency_us: int
    state: str
    state_memory: int
    def __init__(self, path: _Optional[str] = ..., parallelism: _Optional[int] = ..., exchange: _Optional[str] = ..., buffer_batches: _Optional[int] = ..., compression: _Optional[str] = ..., latency_us: _Optional[int] = ..., state: _Optional[str] = ..., state_memory: _Optional[int] = ...) -> None: ...

class Expr(_message.Message):
    __slots__ = ("column", "literal", "call", "case", "cast", "is_in", "alias", "agg", "over", "udf")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    CASE_FIELD_NUMBER: _ClassVar[int]
    CAST_FIELD_NUMBER: _ClassVar[int]
    IS_IN_FIELD_NUMBER: _ClassVar[int]
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    AGG_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    UDF_FIELD_NUMBER: _ClassVar[int]
    column: str
    literal: Literal
    call: Call
    case: Case
    cast: Cast
    is_in: IsIn
    alias: Alias
    agg: Agg
    over: Over
    udf: Udf
    def __init__(self, column: _Optional[str] = ..., literal: _Optional[_Union[Literal, _Mapping]] = ..., call: _Optional[_Union[Call, _Mapping]] = ..., case: _Optional[_Union[Case, _Mapping]] = ..., cast: _Optional[_Union[Cast, _Mapping]] = ..., is_in: _Optional[_Union[IsIn, _Mapping]] = ..., alias: _Optional[_Union[Alias, _Mapping]] = ..., agg: _Optional[_Union[Agg, _Mapping]] = ..., over: _Optional[_Union[Over, _Mapping]] = ..., udf: _Optional[_Union[Udf, _Mapping]] = ...) -> None: ...

class Literal(_message.Message):
    __slots__ = ("type", "boolean", "integer", "unsigned", "real", "text", "binary")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    UNSIGNED_FIELD_NUMBER: _ClassVar[int]
    REAL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BINARY_FIELD_NUMBER: _ClassVar[int]
    type: int
    boolean: bool
    integer: int
    unsigned: int
    real: float
    text: str
    binary: bytes
    def __init__(self, type: _Optional[int] = ..., boolean: _Optional[bool] = ..., integer: _Optional[int] = ..., unsigned: _Optional[int] = ..., real: _Optional[float] = ..., text: _Optional[str] = ..., binary: _Optional[bytes] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("function", "args")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    function: str
    args: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, function: _Optional[str] = ..., args: _Optional[_Iterable[int]] = ...) -> None: ...

class Case(_message.Message):
    __slots__ = ("parts",)
    PARTS_FIELD_NUMBER: _ClassVar[int]
    parts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, parts: _Optional[_Iterable[int]] = ...) -> None: ...

class Cast(_message.Message):
    __slots__ = ("input", "type")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TRY_FIELD_NUMBER: _ClassVar[int]
    input: int
    type: int
    def __init__(self, input: _Optional[int] = ..., type: _Optional[int] = ..., **kwargs) -> None: ...

class IsIn(_message.Message):
    __slots__ = ("input", "values")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    input: int
    values: _containers.RepeatedCompositeFieldContainer[Literal]
    def __init__(self, input: _Optional[int] = ..., values: _Optional[_Iterable[_Union[Literal, _Mapping]]] = ...) -> None: ...

class Alias(_message.Message):
    __slots__ = ("input", "name")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    input: int
    name: str
    def __init__(self, input: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...

class Agg(_message.Message):
    __slots__ = ("function", "input", "args")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    function: str
    input: int
    args: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, function: _Optional[str] = ..., input: _Optional[int] = ..., args: _Optional[_Iterable[int]] = ...) -> None: ...

class Over(_message.Message):
    __slots__ = ("input", "partition_by", "order_by", "frame")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_BY_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    input: int
    partition_by: _containers.RepeatedScalarFieldContainer[int]
    order_by: _containers.RepeatedCompositeFieldContainer[SortKey]
    frame: Frame
    def __init__(self, input: _Optional[int] = ..., partition_by: _Optional[_Iterable[int]] = ..., order_by: _Optional[_Iterable[_Union[SortKey, _Mapping]]] = ..., frame: _Optional[_Union[Frame, _Mapping]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("unit", "start", "end")
    UNIT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    unit: str
    start: int
    end: int
    def __init__(self, unit: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Udf(_message.Message):
    __slots__ = ("name", "args", "type", "kind", "payload", "mac")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    name: str
    args: _containers.RepeatedScalarFieldContainer[int]
    type: int
    kind: str
    payload: bytes
    mac: bytes
    def __init__(self, name: _Optional[str] = ..., args: _Optional[_Iterable[int]] = ..., type: _Optional[int] = ..., kind: _Optional[str] = ..., payload: _Optional[bytes] = ..., mac: _Optional[bytes] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("path", "inputs", "scan", "stage_input", "filter", "select", "with_columns", "aggregate", "join", "sort", "limit", "distinct", "union", "exchange", "sink", "window", "explode", "stream_scan", "watermark", "assign_windows", "stream_aggregate", "deduplicate", "top_n", "keyed_process", "side_output", "lookup_join", "changes", "branches", "stream_join", "asof_join", "updating_join", "match", "map_async")
    PATH_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SCAN_FIELD_NUMBER: _ClassVar[int]
    STAGE_INPUT_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    SELECT_FIELD_NUMBER: _ClassVar[int]
    WITH_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    JOIN_FIELD_NUMBER: _ClassVar[int]
    SORT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_FIELD_NUMBER: _ClassVar[int]
    UNION_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    EXPLODE_FIELD_NUMBER: _ClassVar[int]
    STREAM_SCAN_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_FIELD_NUMBER: _ClassVar[int]
    ASSIGN_WINDOWS_FIELD_NUMBER: _ClassVar[int]
    STREAM_AGGREGATE_FIELD_NUMBER: _ClassVar[int]
    DEDUPLICATE_FIELD_NUMBER: _ClassVar[int]
    TOP_N_FIELD_NUMBER: _ClassVar[int]
    KEYED_PROCESS_FIELD_NUMBER: _ClassVar[int]
    SIDE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    LOOKUP_JOIN_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    STREAM_JOIN_FIELD_NUMBER: _ClassVar[int]
    ASOF_JOIN_FIELD_NUMBER: _ClassVar[int]
    UPDATING_JOIN_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    MAP_ASYNC_FIELD_NUMBER: _ClassVar[int]
    path: str
    inputs: _containers.RepeatedScalarFieldContainer[int]
    scan: Scan
    stage_input: StageInput
    filter: int
    select: Select
    with_columns: WithColumns
    aggregate: Aggregate
    join: Join
    sort: Sort
    limit: Limit
    distinct: Distinct
    union: Union
    exchange: Exchange
    sink: Sink
    window: Window
    explode: Explode
    stream_scan: StreamScan
    watermark: Watermark
    assign_windows: AssignWindows
    stream_aggregate: StreamAggregate
    deduplicate: Deduplicate
    top_n: TopN
    keyed_process: KeyedProcess
    side_output: str
    lookup_join: LookupJoin
    changes: str
    branches: Branches
    stream_join: StreamJoin
    asof_join: AsofJoin
    updating_join: UpdatingJoin
    match: Match
    map_async: MapAsync
    def __init__(self, path: _Optional[str] = ..., inputs: _Optional[_Iterable[int]] = ..., scan: _Optional[_Union[Scan, _Mapping]] = ..., stage_input: _Optional[_Union[StageInput, _Mapping]] = ..., filter: _Optional[int] = ..., select: _Optional[_Union[Select, _Mapping]] = ..., with_columns: _Optional[_Union[WithColumns, _Mapping]] = ..., aggregate: _Optional[_Union[Aggregate, _Mapping]] = ..., join: _Optional[_Union[Join, _Mapping]] = ..., sort: _Optional[_Union[Sort, _Mapping]] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ..., distinct: _Optional[_Union[Distinct, _Mapping]] = ..., union: _Optional[_Union[Union, _Mapping]] = ..., exchange: _Optional[_Union[Exchange, _Mapping]] = ..., sink: _Optional[_Union[Sink, _Mapping]] = ..., window: _Optional[_Union[Window, _Mapping]] = ..., explode: _Optional[_Union[Explode, _Mapping]] = ..., stream_scan: _Optional[_Union[StreamScan, _Mapping]] = ..., watermark: _Optional[_Union[Watermark, _Mapping]] = ..., assign_windows: _Optional[_Union[AssignWindows, _Mapping]] = ..., stream_aggregate: _Optional[_Union[StreamAggregate, _Mapping]] = ..., deduplicate: _Optional[_Union[Deduplicate, _Mapping]] = ..., top_n: _Optional[_Union[TopN, _Mapping]] = ..., keyed_process: _Optional[_Union[KeyedProcess, _Mapping]] = ..., side_output: _Optional[str] = ..., lookup_join: _Optional[_Union[LookupJoin, _Mapping]] = ..., changes: _Optional[str] = ..., branches: _Optional[_Union[Branches, _Mapping]] = ..., stream_join: _Optional[_Union[StreamJoin, _Mapping]] = ..., asof_join: _Optional[_Union[AsofJoin, _Mapping]] = ..., updating_join: _Optional[_Union[UpdatingJoin, _Mapping]] = ..., match: _Optional[_Union[Match, _Mapping]] = ..., map_async: _Optional[_Union[MapAsync, _Mapping]] = ...) -> None: ...

class Scan(_message.Message):
    __slots__ = ("source", "schema", "columns", "predicate", "scan_id", "limit")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    SCAN_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    source: Source
    schema: int
    columns: Names
    predicate: int
    scan_id: int
    limit: int
    def __init__(self, source: _Optional[_Union[Source, _Mapping]] = ..., schema: _Optional[int] = ..., columns: _Optional[_Union[Names, _Mapping]] = ..., predicate: _Optional[int] = ..., scan_id: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class Names(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class StageInput(_message.Message):
    __slots__ = ("edge", "schema")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    edge: int
    schema: int
    def __init__(self, edge: _Optional[int] = ..., schema: _Optional[int] = ...) -> None: ...

class Select(_message.Message):
    __slots__ = ("exprs",)
    EXPRS_FIELD_NUMBER: _ClassVar[int]
    exprs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, exprs: _Optional[_Iterable[int]] = ...) -> None: ...

class WithColumns(_message.Message):
    __slots__ = ("exprs", "replace")
    EXPRS_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    exprs: _containers.RepeatedScalarFieldContainer[int]
    replace: bool
    def __init__(self, exprs: _Optional[_Iterable[int]] = ..., replace: _Optional[bool] = ...) -> None: ...

class Aggregate(_message.Message):
    __slots__ = ("keys", "aggs", "phase")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    AGGS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[int]
    aggs: _containers.RepeatedScalarFieldContainer[int]
    phase: str
    def __init__(self, keys: _Optional[_Iterable[int]] = ..., aggs: _Optional[_Iterable[int]] = ..., phase: _Optional[str] = ...) -> None: ...

class Join(_message.Message):
    __slots__ = ("left_keys", "right_keys", "how", "suffix", "strategy", "condition")
    LEFT_KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    left_keys: _containers.RepeatedScalarFieldContainer[int]
    right_keys: _containers.RepeatedScalarFieldContainer[int]
    how: str
    suffix: str
    strategy: str
    condition: int
    def __init__(self, left_keys: _Optional[_Iterable[int]] = ..., right_keys: _Optional[_Iterable[int]] = ..., how: _Optional[str] = ..., suffix: _Optional[str] = ..., strategy: _Optional[str] = ..., condition: _Optional[int] = ...) -> None: ...

class Window(_message.Message):
    __slots__ = ("exprs",)
    EXPRS_FIELD_NUMBER: _ClassVar[int]
    exprs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, exprs: _Optional[_Iterable[int]] = ...) -> None: ...

class Explode(_message.Message):
    __slots__ = ("column", "outer", "position")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    OUTER_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    column: str
    outer: bool
    position: str
    def __init__(self, column: _Optional[str] = ..., outer: _Optional[bool] = ..., position: _Optional[str] = ...) -> None: ...

class Sort(_message.Message):
    __slots__ = ("keys", "phase", "n_ranges")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    N_RANGES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[SortKey]
    phase: str
    n_ranges: int
    def __init__(self, keys: _Optional[_Iterable[_Union[SortKey, _Mapping]]] = ..., phase: _Optional[str] = ..., n_ranges: _Optional[int] = ...) -> None: ...

class SortKey(_message.Message):
    __slots__ = ("input", "descending", "nulls_last")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    NULLS_LAST_FIELD_NUMBER: _ClassVar[int]
    input: int
    descending: bool
    nulls_last: bool
    def __init__(self, input: _Optional[int] = ..., descending: _Optional[bool] = ..., nulls_last: _Optional[bool] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("n", "offset")
    N_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    n: int
    offset: int
    def __init__(self, n: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Distinct(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Union(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Exchange(_message.Message):
    __slots__ = ("kind", "keys", "n_partitions", "mode", "compression")
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    N_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    n_partitions: int
    mode: str
    compression: str
    def __init__(self, kind: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., n_partitions: _Optional[int] = ..., mode: _Optional[str] = ..., compression: _Optional[str] = ...) -> None: ...

class Sink(_message.Message):
    __slots__ = ("target",)
    TARGET_FIELD_NUMBER: _ClassVar[int]
    target: Target
    def __init__(self, target: _Optional[_Union[Target, _Mapping]] = ...) -> None: ...

class Match(_message.Message):
    __slots__ = ("pattern", "keys", "order", "define", "measures", "subsets", "within_us", "after", "per_match", "late", "timeout", "time", "endless")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    DEFINE_FIELD_NUMBER: _ClassVar[int]
    MEASURES_FIELD_NUMBER: _ClassVar[int]
    SUBSETS_FIELD_NUMBER: _ClassVar[int]
    WITHIN_US_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    PER_MATCH_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    ENDLESS_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    keys: _containers.RepeatedScalarFieldContainer[int]
    order: _containers.RepeatedCompositeFieldContainer[SortKey]
    define: _containers.RepeatedScalarFieldContainer[int]
    measures: _containers.RepeatedScalarFieldContainer[int]
    subsets: _containers.RepeatedCompositeFieldContainer[Setting]
    within_us: int
    after: str
    per_match: str
    late: str
    timeout: str
    time: str
    endless: bool
    def __init__(self, pattern: _Optional[str] = ..., keys: _Optional[_Iterable[int]] = ..., order: _Optional[_Iterable[_Union[SortKey, _Mapping]]] = ..., define: _Optional[_Iterable[int]] = ..., measures: _Optional[_Iterable[int]] = ..., subsets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., within_us: _Optional[int] = ..., after: _Optional[str] = ..., per_match: _Optional[str] = ..., late: _Optional[str] = ..., timeout: _Optional[str] = ..., time: _Optional[str] = ..., endless: _Optional[bool] = ...) -> None: ...

class StreamScan(_message.Message):
    __slots__ = ("source", "schema", "columns", "scan_id")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SCAN_ID_FIELD_NUMBER: _ClassVar[int]
    source: StreamSource
    schema: int
    columns: Names
    scan_id: int
    def __init__(self, source: _Optional[_Union[StreamSource, _Mapping]] = ..., schema: _Optional[int] = ..., columns: _Optional[_Union[Names, _Mapping]] = ..., scan_id: _Optional[int] = ...) -> None: ...

class Branches(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Watermark(_message.Message):
    __slots__ = ("column", "bound_us", "idle_us", "future_us", "strategy", "function", "on_bad", "emit_us", "drift_us", "rows")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    BOUND_US_FIELD_NUMBER: _ClassVar[int]
    IDLE_US_FIELD_NUMBER: _ClassVar[int]
    FUTURE_US_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ON_BAD_FIELD_NUMBER: _ClassVar[int]
    EMIT_US_FIELD_NUMBER: _ClassVar[int]
    DRIFT_US_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    column: str
    bound_us: int
    idle_us: int
    future_us: int
    strategy: str
    function: int
    on_bad: str
    emit_us: int
    drift_us: int
    rows: bool
    def __init__(self, column: _Optional[str] = ..., bound_us: _Optional[int] = ..., idle_us: _Optional[int] = ..., future_us: _Optional[int] = ..., strategy: _Optional[str] = ..., function: _Optional[int] = ..., on_bad: _Optional[str] = ..., emit_us: _Optional[int] = ..., drift_us: _Optional[int] = ..., rows: _Optional[bool] = ...) -> None: ...

class EventWindow(_message.Message):
    __slots__ = ("kind", "size", "step_us", "offset_us")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    STEP_US_FIELD_NUMBER: _ClassVar[int]
    OFFSET_US_FIELD_NUMBER: _ClassVar[int]
    kind: str
    size: int
    step_us: int
    offset_us: int
    def __init__(self, kind: _Optional[str] = ..., size: _Optional[int] = ..., step_us: _Optional[int] = ..., offset_us: _Optional[int] = ...) -> None: ...

class Trigger(_message.Message):
    __slots__ = ("early_us", "count", "late")
    EARLY_US_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    early_us: int
    count: int
    late: str
    def __init__(self, early_us: _Optional[int] = ..., count: _Optional[int] = ..., late: _Optional[str] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("closes", "lateness_us", "late", "kinds")
    CLOSES_FIELD_NUMBER: _ClassVar[int]
    LATENESS_US_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    closes: str
    lateness_us: int
    late: str
    kinds: bool
    def __init__(self, closes: _Optional[str] = ..., lateness_us: _Optional[int] = ..., late: _Optional[str] = ..., kinds: _Optional[bool] = ...) -> None: ...

class AssignWindows(_message.Message):
    __slots__ = ("time", "window")
    TIME_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    time: str
    window: EventWindow
    def __init__(self, time: _Optional[str] = ..., window: _Optional[_Union[EventWindow, _Mapping]] = ...) -> None: ...

class StreamAggregate(_message.Message):
    __slots__ = ("keys", "aggs", "window", "time", "trigger", "waiting")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    AGGS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[int]
    aggs: _containers.RepeatedScalarFieldContainer[int]
    window: EventWindow
    time: str
    trigger: Trigger
    waiting: Waiting
    def __init__(self, keys: _Optional[_Iterable[int]] = ..., aggs: _Optional[_Iterable[int]] = ..., window: _Optional[_Union[EventWindow, _Mapping]] = ..., time: _Optional[str] = ..., trigger: _Optional[_Union[Trigger, _Mapping]] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ...) -> None: ...

class Deduplicate(_message.Message):
    __slots__ = ("keys", "keep", "by", "ttl_us", "waiting", "rows")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    TTL_US_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[int]
    keep: str
    by: str
    ttl_us: int
    waiting: Waiting
    rows: bool
    def __init__(self, keys: _Optional[_Iterable[int]] = ..., keep: _Optional[str] = ..., by: _Optional[str] = ..., ttl_us: _Optional[int] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ..., rows: _Optional[bool] = ...) -> None: ...

class TopN(_message.Message):
    __slots__ = ("keys", "by", "n", "ties", "rank", "waiting")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    TIES_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[int]
    by: _containers.RepeatedCompositeFieldContainer[SortKey]
    n: int
    ties: bool
    rank: str
    waiting: Waiting
    def __init__(self, keys: _Optional[_Iterable[int]] = ..., by: _Optional[_Iterable[_Union[SortKey, _Mapping]]] = ..., n: _Optional[int] = ..., ties: _Optional[bool] = ..., rank: _Optional[str] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ...) -> None: ...

class KeyedProcess(_message.Message):
    __slots__ = ("keys", "function", "schema", "states", "timers", "sides", "on_error", "timeout_us", "time", "broadcast_is", "broadcast_keys", "broadcast_deleted", "broadcast_bytes")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    TIMERS_FIELD_NUMBER: _ClassVar[int]
    SIDES_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_IS_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_KEYS_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_DELETED_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_BYTES_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedScalarFieldContainer[int]
    function: int
    schema: int
    states: _containers.RepeatedCompositeFieldContainer[StateField]
    timers: _containers.RepeatedScalarFieldContainer[str]
    sides: _containers.RepeatedCompositeFieldContainer[Side]
    on_error: str
    timeout_us: int
    time: str
    broadcast_is: str
    broadcast_keys: _containers.RepeatedScalarFieldContainer[str]
    broadcast_deleted: int
    broadcast_bytes: int
    def __init__(self, keys: _Optional[_Iterable[int]] = ..., function: _Optional[int] = ..., schema: _Optional[int] = ..., states: _Optional[_Iterable[_Union[StateField, _Mapping]]] = ..., timers: _Optional[_Iterable[str]] = ..., sides: _Optional[_Iterable[_Union[Side, _Mapping]]] = ..., on_error: _Optional[str] = ..., timeout_us: _Optional[int] = ..., time: _Optional[str] = ..., broadcast_is: _Optional[str] = ..., broadcast_keys: _Optional[_Iterable[str]] = ..., broadcast_deleted: _Optional[int] = ..., broadcast_bytes: _Optional[int] = ...) -> None: ...

class StateField(_message.Message):
    __slots__ = ("name", "kind", "type", "key_type", "function", "ttl_us", "ttl_on")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KEY_TYPE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    TTL_US_FIELD_NUMBER: _ClassVar[int]
    TTL_ON_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    type: int
    key_type: int
    function: int
    ttl_us: int
    ttl_on: str
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., type: _Optional[int] = ..., key_type: _Optional[int] = ..., function: _Optional[int] = ..., ttl_us: _Optional[int] = ..., ttl_on: _Optional[str] = ...) -> None: ...

class Side(_message.Message):
    __slots__ = ("tag", "schema")
    TAG_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    tag: str
    schema: int
    def __init__(self, tag: _Optional[str] = ..., schema: _Optional[int] = ...) -> None: ...

class LookupJoin(_message.Message):
    __slots__ = ("left_keys", "right_keys", "how", "suffix")
    LEFT_KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    left_keys: _containers.RepeatedScalarFieldContainer[int]
    right_keys: _containers.RepeatedScalarFieldContainer[int]
    how: str
    suffix: str
    def __init__(self, left_keys: _Optional[_Iterable[int]] = ..., right_keys: _Optional[_Iterable[int]] = ..., how: _Optional[str] = ..., suffix: _Optional[str] = ...) -> None: ...

class StreamJoin(_message.Message):
    __slots__ = ("left_keys", "right_keys", "left_time", "right_time", "lower_us", "upper_us", "how", "suffix", "late", "condition", "salt")
    LEFT_KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    LEFT_TIME_FIELD_NUMBER: _ClassVar[int]
    RIGHT_TIME_FIELD_NUMBER: _ClassVar[int]
    LOWER_US_FIELD_NUMBER: _ClassVar[int]
    UPPER_US_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    left_keys: _containers.RepeatedScalarFieldContainer[int]
    right_keys: _containers.RepeatedScalarFieldContainer[int]
    left_time: str
    right_time: str
    lower_us: int
    upper_us: int
    how: str
    suffix: str
    late: str
    condition: int
    salt: int
    def __init__(self, left_keys: _Optional[_Iterable[int]] = ..., right_keys: _Optional[_Iterable[int]] = ..., left_time: _Optional[str] = ..., right_time: _Optional[str] = ..., lower_us: _Optional[int] = ..., upper_us: _Optional[int] = ..., how: _Optional[str] = ..., suffix: _Optional[str] = ..., late: _Optional[str] = ..., condition: _Optional[int] = ..., salt: _Optional[int] = ...) -> None: ...

class AsofJoin(_message.Message):
    __slots__ = ("left_keys", "right_keys", "left_time", "right_time", "how", "strategy", "tolerance_us", "exact", "deleted", "shift_us", "suffix", "late", "salt")
    LEFT_KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    LEFT_TIME_FIELD_NUMBER: _ClassVar[int]
    RIGHT_TIME_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_US_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    SHIFT_US_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    left_keys: _containers.RepeatedScalarFieldContainer[int]
    right_keys: _containers.RepeatedScalarFieldContainer[int]
    left_time: str
    right_time: str
    how: str
    strategy: str
    tolerance_us: int
    exact: bool
    deleted: int
    shift_us: int
    suffix: str
    late: str
    salt: int
    def __init__(self, left_keys: _Optional[_Iterable[int]] = ..., right_keys: _Optional[_Iterable[int]] = ..., left_time: _Optional[str] = ..., right_time: _Optional[str] = ..., how: _Optional[str] = ..., strategy: _Optional[str] = ..., tolerance_us: _Optional[int] = ..., exact: _Optional[bool] = ..., deleted: _Optional[int] = ..., shift_us: _Optional[int] = ..., suffix: _Optional[str] = ..., late: _Optional[str] = ..., salt: _Optional[int] = ...) -> None: ...

class UpdatingJoin(_message.Message):
    __slots__ = ("left_keys", "right_keys", "left_time", "right_time", "how", "suffix", "late", "ttl_us", "condition", "kinds", "salt")
    LEFT_KEYS_FIELD_NUMBER: _ClassVar[int]
    RIGHT_KEYS_FIELD_NUMBER: _ClassVar[int]
    LEFT_TIME_FIELD_NUMBER: _ClassVar[int]
    RIGHT_TIME_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    TTL_US_FIELD_NUMBER: _ClassVar[int]
    CONDITION_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    left_keys: _containers.RepeatedScalarFieldContainer[int]
    right_keys: _containers.RepeatedScalarFieldContainer[int]
    left_time: str
    right_time: str
    how: str
    suffix: str
    late: str
    ttl_us: int
    condition: int
    kinds: bool
    salt: int
    def __init__(self, left_keys: _Optional[_Iterable[int]] = ..., right_keys: _Optional[_Iterable[int]] = ..., left_time: _Optional[str] = ..., right_time: _Optional[str] = ..., how: _Optional[str] = ..., suffix: _Optional[str] = ..., late: _Optional[str] = ..., ttl_us: _Optional[int] = ..., condition: _Optional[int] = ..., kinds: _Optional[bool] = ..., salt: _Optional[int] = ...) -> None: ...

class MapAsync(_message.Message):
    __slots__ = ("function", "schema", "keep", "capacity", "capacity_bytes", "ordered", "timeout_us", "retries", "backoff_us", "rate_per_s", "batch", "on_error", "n_tasks")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_US_FIELD_NUMBER: _ClassVar[int]
    RATE_PER_S_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    ON_ERROR_FIELD_NUMBER: _ClassVar[int]
    N_TASKS_FIELD_NUMBER: _ClassVar[int]
    function: int
    schema: int
    keep: _containers.RepeatedScalarFieldContainer[str]
    capacity: int
    capacity_bytes: int
    ordered: bool
    timeout_us: int
    retries: int
    backoff_us: int
    rate_per_s: float
    batch: int
    on_error: str
    n_tasks: int
    def __init__(self, function: _Optional[int] = ..., schema: _Optional[int] = ..., keep: _Optional[_Iterable[str]] = ..., capacity: _Optional[int] = ..., capacity_bytes: _Optional[int] = ..., ordered: _Optional[bool] = ..., timeout_us: _Optional[int] = ..., retries: _Optional[int] = ..., backoff_us: _Optional[int] = ..., rate_per_s: _Optional[float] = ..., batch: _Optional[int] = ..., on_error: _Optional[str] = ..., n_tasks: _Optional[int] = ...) -> None: ...

class Option(_message.Message):
    __slots__ = ("name", "text", "flag", "integer", "texts", "schema")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    FLAG_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    name: str
    text: str
    flag: bool
    integer: int
    texts: Names
    schema: bytes
    def __init__(self, name: _Optional[str] = ..., text: _Optional[str] = ..., flag: _Optional[bool] = ..., integer: _Optional[int] = ..., texts: _Optional[_Union[Names, _Mapping]] = ..., schema: _Optional[bytes] = ...) -> None: ...

class Source(_message.Message):
    __slots__ = ("file", "memory", "dataset", "flight")
    FILE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    FLIGHT_FIELD_NUMBER: _ClassVar[int]
    file: FileSource
    memory: MemorySource
    dataset: DatasetSource
    flight: FlightSource
    def __init__(self, file: _Optional[_Union[FileSource, _Mapping]] = ..., memory: _Optional[_Union[MemorySource, _Mapping]] = ..., dataset: _Optional[_Union[DatasetSource, _Mapping]] = ..., flight: _Optional[_Union[FlightSource, _Mapping]] = ...) -> None: ...

class FileSource(_message.Message):
    __slots__ = ("format", "paths", "options", "hive", "schemas", "settings", "secrets")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    HIVE_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    format: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    options: _containers.RepeatedCompositeFieldContainer[Option]
    hive: bytes
    schemas: str
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    secrets: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, format: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ..., options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., hive: _Optional[bytes] = ..., schemas: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class MemorySource(_message.Message):
    __slots__ = ("token", "n_rows")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    N_ROWS_FIELD_NUMBER: _ClassVar[int]
    token: str
    n_rows: int
    def __init__(self, token: _Optional[str] = ..., n_rows: _Optional[int] = ...) -> None: ...

class DatasetSource(_message.Message):
    __slots__ = ("name", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class FlightSource(_message.Message):
    __slots__ = ("uri", "path", "command", "token", "tls_roots", "insecure")
    URI_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TLS_ROOTS_FIELD_NUMBER: _ClassVar[int]
    INSECURE_FIELD_NUMBER: _ClassVar[int]
    uri: str
    path: _containers.RepeatedScalarFieldContainer[str]
    command: bytes
    token: str
    tls_roots: bytes
    insecure: bool
    def __init__(self, uri: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ..., command: _Optional[bytes] = ..., token: _Optional[str] = ..., tls_roots: _Optional[bytes] = ..., insecure: _Optional[bool] = ...) -> None: ...

class StreamSource(_message.Message):
    __slots__ = ("generator", "nexmark", "replay", "files", "flight", "kafka")
    GENERATOR_FIELD_NUMBER: _ClassVar[int]
    NEXMARK_FIELD_NUMBER: _ClassVar[int]
    REPLAY_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    FLIGHT_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    generator: GeneratorStream
    nexmark: NexmarkStream
    replay: ReplayStream
    files: FollowedFiles
    flight: FlightStream
    kafka: KafkaStream
    def __init__(self, generator: _Optional[_Union[GeneratorStream, _Mapping]] = ..., nexmark: _Optional[_Union[NexmarkStream, _Mapping]] = ..., replay: _Optional[_Union[ReplayStream, _Mapping]] = ..., files: _Optional[_Union[FollowedFiles, _Mapping]] = ..., flight: _Optional[_Union[FlightStream, _Mapping]] = ..., kafka: _Optional[_Union[KafkaStream, _Mapping]] = ...) -> None: ...

class GeneratorStream(_message.Message):
    __slots__ = ("rows_per_s", "n_rows", "n_keys", "n_splits", "seed", "start_us", "disorder_us")
    ROWS_PER_S_FIELD_NUMBER: _ClassVar[int]
    N_ROWS_FIELD_NUMBER: _ClassVar[int]
    N_KEYS_FIELD_NUMBER: _ClassVar[int]
    N_SPLITS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    START_US_FIELD_NUMBER: _ClassVar[int]
    DISORDER_US_FIELD_NUMBER: _ClassVar[int]
    rows_per_s: int
    n_rows: int
    n_keys: int
    n_splits: int
    seed: int
    start_us: int
    disorder_us: int
    def __init__(self, rows_per_s: _Optional[int] = ..., n_rows: _Optional[int] = ..., n_keys: _Optional[int] = ..., n_splits: _Optional[int] = ..., seed: _Optional[int] = ..., start_us: _Optional[int] = ..., disorder_us: _Optional[int] = ...) -> None: ...

class NexmarkStream(_message.Message):
    __slots__ = ("table", "events_per_s", "n_events", "n_splits", "seed", "start_us", "event_rate")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    EVENTS_PER_S_FIELD_NUMBER: _ClassVar[int]
    N_EVENTS_FIELD_NUMBER: _ClassVar[int]
    N_SPLITS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    START_US_FIELD_NUMBER: _ClassVar[int]
    EVENT_RATE_FIELD_NUMBER: _ClassVar[int]
    table: str
    events_per_s: int
    n_events: int
    n_splits: int
    seed: int
    start_us: int
    event_rate: int
    def __init__(self, table: _Optional[str] = ..., events_per_s: _Optional[int] = ..., n_events: _Optional[int] = ..., n_splits: _Optional[int] = ..., seed: _Optional[int] = ..., start_us: _Optional[int] = ..., event_rate: _Optional[int] = ...) -> None: ...

class ReplayStream(_message.Message):
    __slots__ = ("source", "order_by", "split_by", "by_file", "speed")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ORDER_BY_FIELD_NUMBER: _ClassVar[int]
    SPLIT_BY_FIELD_NUMBER: _ClassVar[int]
    BY_FILE_FIELD_NUMBER: _ClassVar[int]
    SPEED_FIELD_NUMBER: _ClassVar[int]
    source: Source
    order_by: str
    split_by: str
    by_file: bool
    speed: float
    def __init__(self, source: _Optional[_Union[Source, _Mapping]] = ..., order_by: _Optional[str] = ..., split_by: _Optional[str] = ..., by_file: _Optional[bool] = ..., speed: _Optional[float] = ...) -> None: ...

class FollowedFiles(_message.Message):
    __slots__ = ("format", "path", "grows", "until", "n_splits", "poll_s", "settle_s", "options", "on_bad", "settings", "secrets")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    GROWS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    N_SPLITS_FIELD_NUMBER: _ClassVar[int]
    POLL_S_FIELD_NUMBER: _ClassVar[int]
    SETTLE_S_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    ON_BAD_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    format: str
    path: str
    grows: bool
    until: str
    n_splits: int
    poll_s: float
    settle_s: float
    options: _containers.RepeatedCompositeFieldContainer[Option]
    on_bad: str
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    secrets: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, format: _Optional[str] = ..., path: _Optional[str] = ..., grows: _Optional[bool] = ..., until: _Optional[str] = ..., n_splits: _Optional[int] = ..., poll_s: _Optional[float] = ..., settle_s: _Optional[float] = ..., options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., on_bad: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class FlightStream(_message.Message):
    __slots__ = ("name", "acknowledge", "n_splits", "buffer_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGE_FIELD_NUMBER: _ClassVar[int]
    N_SPLITS_FIELD_NUMBER: _ClassVar[int]
    BUFFER_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    acknowledge: str
    n_splits: int
    buffer_bytes: int
    def __init__(self, name: _Optional[str] = ..., acknowledge: _Optional[str] = ..., n_splits: _Optional[int] = ..., buffer_bytes: _Optional[int] = ...) -> None: ...

class Target(_message.Message):
    __slots__ = ("file", "dataset", "flight", "gate", "stream_file", "blackhole", "live", "kafka", "postgres")
    FILE_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    FLIGHT_FIELD_NUMBER: _ClassVar[int]
    GATE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FILE_FIELD_NUMBER: _ClassVar[int]
    BLACKHOLE_FIELD_NUMBER: _ClassVar[int]
    LIVE_FIELD_NUMBER: _ClassVar[int]
    KAFKA_FIELD_NUMBER: _ClassVar[int]
    POSTGRES_FIELD_NUMBER: _ClassVar[int]
    file: FileTarget
    dataset: DatasetTarget
    flight: FlightTarget
    gate: GateTarget
    stream_file: StreamFileTarget
    blackhole: BlackholeTarget
    live: LiveTarget
    kafka: KafkaTarget
    postgres: PostgresTarget
    def __init__(self, file: _Optional[_Union[FileTarget, _Mapping]] = ..., dataset: _Optional[_Union[DatasetTarget, _Mapping]] = ..., flight: _Optional[_Union[FlightTarget, _Mapping]] = ..., gate: _Optional[_Union[GateTarget, _Mapping]] = ..., stream_file: _Optional[_Union[StreamFileTarget, _Mapping]] = ..., blackhole: _Optional[_Union[BlackholeTarget, _Mapping]] = ..., live: _Optional[_Union[LiveTarget, _Mapping]] = ..., kafka: _Optional[_Union[KafkaTarget, _Mapping]] = ..., postgres: _Optional[_Union[PostgresTarget, _Mapping]] = ...) -> None: ...

class Setting(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class PostgresTarget(_message.Message):
    __slots__ = ("table", "schema", "key", "mode", "kind", "staging", "settings", "secrets", "insecure")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STAGING_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    INSECURE_FIELD_NUMBER: _ClassVar[int]
    table: str
    schema: str
    key: _containers.RepeatedScalarFieldContainer[str]
    mode: str
    kind: str
    staging: str
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    secrets: _containers.RepeatedCompositeFieldContainer[Setting]
    insecure: bool
    def __init__(self, table: _Optional[str] = ..., schema: _Optional[str] = ..., key: _Optional[_Iterable[str]] = ..., mode: _Optional[str] = ..., kind: _Optional[str] = ..., staging: _Optional[str] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., insecure: _Optional[bool] = ...) -> None: ...

class RowFormat(_message.Message):
    __slots__ = ("name", "options", "schema_text", "message", "registry", "subject", "strategy", "registry_settings", "registry_secrets")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_TEXT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_SETTINGS_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_SECRETS_FIELD_NUMBER: _ClassVar[int]
    name: str
    options: _containers.RepeatedCompositeFieldContainer[Option]
    schema_text: str
    message: str
    registry: str
    subject: str
    strategy: str
    registry_settings: _containers.RepeatedCompositeFieldContainer[Setting]
    registry_secrets: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, name: _Optional[str] = ..., options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., schema_text: _Optional[str] = ..., message: _Optional[str] = ..., registry: _Optional[str] = ..., subject: _Optional[str] = ..., strategy: _Optional[str] = ..., registry_settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., registry_secrets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class KafkaOffset(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class KafkaStream(_message.Message):
    __slots__ = ("servers", "topics", "pattern", "value", "key", "key_format", "columns", "start", "start_ms", "offsets", "until", "on_expired", "on_bad", "isolation", "group", "discover_s", "rows_per_s", "bytes_per_s", "buffer_bytes", "settings", "secrets")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    START_MS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    ON_EXPIRED_FIELD_NUMBER: _ClassVar[int]
    ON_BAD_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    DISCOVER_S_FIELD_NUMBER: _ClassVar[int]
    ROWS_PER_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
    BUFFER_BYTES_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    servers: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    pattern: str
    value: RowFormat
    key: _containers.RepeatedScalarFieldContainer[str]
    key_format: RowFormat
    columns: _containers.RepeatedCompositeFieldContainer[Setting]
    start: str
    start_ms: int
    offsets: _containers.RepeatedCompositeFieldContainer[KafkaOffset]
    until: str
    on_expired: str
    on_bad: str
    isolation: str
    group: str
    discover_s: float
    rows_per_s: int
    bytes_per_s: int
    buffer_bytes: int
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    secrets: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, servers: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., pattern: _Optional[str] = ..., value: _Optional[_Union[RowFormat, _Mapping]] = ..., key: _Optional[_Iterable[str]] = ..., key_format: _Optional[_Union[RowFormat, _Mapping]] = ..., columns: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., start: _Optional[str] = ..., start_ms: _Optional[int] = ..., offsets: _Optional[_Iterable[_Union[KafkaOffset, _Mapping]]] = ..., until: _Optional[str] = ..., on_expired: _Optional[str] = ..., on_bad: _Optional[str] = ..., isolation: _Optional[str] = ..., group: _Optional[str] = ..., discover_s: _Optional[float] = ..., rows_per_s: _Optional[int] = ..., bytes_per_s: _Optional[int] = ..., buffer_bytes: _Optional[int] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class KafkaTarget(_message.Message):
    __slots__ = ("servers", "topic", "topic_column", "value", "columns", "key", "key_format", "partition_column", "headers", "timestamp", "kind", "guarantee", "transactional_prefix", "markers", "transaction_timeout_s", "publish_timeout_s", "settings", "secrets")
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    TOPIC_COLUMN_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_FORMAT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_COLUMN_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_PREFIX_FIELD_NUMBER: _ClassVar[int]
    MARKERS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    servers: str
    topic: str
    topic_column: str
    value: RowFormat
    columns: _containers.RepeatedScalarFieldContainer[str]
    key: _containers.RepeatedScalarFieldContainer[str]
    key_format: RowFormat
    partition_column: str
    headers: str
    timestamp: str
    kind: str
    guarantee: str
    transactional_prefix: str
    markers: str
    transaction_timeout_s: float
    publish_timeout_s: float
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    secrets: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, servers: _Optional[str] = ..., topic: _Optional[str] = ..., topic_column: _Optional[str] = ..., value: _Optional[_Union[RowFormat, _Mapping]] = ..., columns: _Optional[_Iterable[str]] = ..., key: _Optional[_Iterable[str]] = ..., key_format: _Optional[_Union[RowFormat, _Mapping]] = ..., partition_column: _Optional[str] = ..., headers: _Optional[str] = ..., timestamp: _Optional[str] = ..., kind: _Optional[str] = ..., guarantee: _Optional[str] = ..., transactional_prefix: _Optional[str] = ..., markers: _Optional[str] = ..., transaction_timeout_s: _Optional[float] = ..., publish_timeout_s: _Optional[float] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class FileTarget(_message.Message):
    __slots__ = ("format", "path", "single", "mode", "options", "partition_by", "rows_max", "force", "settings", "secrets")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SINGLE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_BY_FIELD_NUMBER: _ClassVar[int]
    ROWS_MAX_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    format: str
    path: str
    single: bool
    mode: str
    options: _containers.RepeatedCompositeFieldContainer[Option]
    partition_by: _containers.RepeatedScalarFieldContainer[str]
    rows_max: int
    force: bool
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    secrets: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, format: _Optional[str] = ..., path: _Optional[str] = ..., single: _Optional[bool] = ..., mode: _Optional[str] = ..., options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., partition_by: _Optional[_Iterable[str]] = ..., rows_max: _Optional[int] = ..., force: _Optional[bool] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...

class DatasetTarget(_message.Message):
    __slots__ = ("name", "keys", "n_partitions", "mode", "replicas", "kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    N_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    n_partitions: int
    mode: str
    replicas: int
    kind: str
    def __init__(self, name: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., n_partitions: _Optional[int] = ..., mode: _Optional[str] = ..., replicas: _Optional[int] = ..., kind: _Optional[str] = ...) -> None: ...

class FlightTarget(_message.Message):
    __slots__ = ("uri", "path", "token", "tls_roots", "insecure")
    URI_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TLS_ROOTS_FIELD_NUMBER: _ClassVar[int]
    INSECURE_FIELD_NUMBER: _ClassVar[int]
    uri: str
    path: _containers.RepeatedScalarFieldContainer[str]
    token: str
    tls_roots: bytes
    insecure: bool
    def __init__(self, uri: _Optional[str] = ..., path: _Optional[_Iterable[str]] = ..., token: _Optional[str] = ..., tls_roots: _Optional[bytes] = ..., insecure: _Optional[bool] = ...) -> None: ...

class GateTarget(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class BlackholeTarget(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LiveTarget(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class StreamFileTarget(_message.Message):
    __slots__ = ("format", "path", "roll_bytes", "roll_rows", "roll_s", "compact_bytes", "compact_s", "options", "mode", "partition_by", "settings", "secrets")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    ROLL_BYTES_FIELD_NUMBER: _ClassVar[int]
    ROLL_ROWS_FIELD_NUMBER: _ClassVar[int]
    ROLL_S_FIELD_NUMBER: _ClassVar[int]
    COMPACT_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPACT_S_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_BY_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    format: str
    path: str
    roll_bytes: int
    roll_rows: int
    roll_s: float
    compact_bytes: int
    compact_s: float
    options: _containers.RepeatedCompositeFieldContainer[Option]
    mode: str
    partition_by: _containers.RepeatedScalarFieldContainer[str]
    settings: _containers.RepeatedCompositeFieldContainer[Setting]
    secrets: _containers.RepeatedCompositeFieldContainer[Setting]
    def __init__(self, format: _Optional[str] = ..., path: _Optional[str] = ..., roll_bytes: _Optional[int] = ..., roll_rows: _Optional[int] = ..., roll_s: _Optional[float] = ..., compact_bytes: _Optional[int] = ..., compact_s: _Optional[float] = ..., options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., mode: _Optional[str] = ..., partition_by: _Optional[_Iterable[str]] = ..., settings: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., secrets: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ...) -> None: ...
