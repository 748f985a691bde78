from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TaskState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_UNKNOWN: _ClassVar[TaskState]
    TASK_RUNNING: _ClassVar[TaskState]
    TASK_FINISHED: _ClassVar[TaskState]
    TASK_FAILED: _ClassVar[TaskState]
    TASK_CANCELLED: _ClassVar[TaskState]

class StageKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_UNKNOWN: _ClassVar[StageKind]
    STAGE_FRAGMENT: _ClassVar[StageKind]
    STAGE_CHAIN: _ClassVar[StageKind]

class EdgeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EDGE_UNKNOWN: _ClassVar[EdgeKind]
    EDGE_HASH: _ClassVar[EdgeKind]
    EDGE_BROADCAST: _ClassVar[EdgeKind]
    EDGE_ROUND_ROBIN: _ClassVar[EdgeKind]
    EDGE_GATHER: _ClassVar[EdgeKind]
    EDGE_FORWARD: _ClassVar[EdgeKind]
    EDGE_RANGE: _ClassVar[EdgeKind]

class EdgeMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNKNOWN: _ClassVar[EdgeMode]
    MODE_MATERIALISED: _ClassVar[EdgeMode]
    MODE_PIPELINED: _ClassVar[EdgeMode]

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_UNKNOWN: _ClassVar[JobState]
    JOB_QUEUED: _ClassVar[JobState]
    JOB_RUNNING: _ClassVar[JobState]
    JOB_FINISHED: _ClassVar[JobState]
    JOB_FAILED: _ClassVar[JobState]
    JOB_CANCELLED: _ClassVar[JobState]
    JOB_RELEASED: _ClassVar[JobState]
TASK_UNKNOWN: TaskState
TASK_RUNNING: TaskState
TASK_FINISHED: TaskState
TASK_FAILED: TaskState
TASK_CANCELLED: TaskState
STAGE_UNKNOWN: StageKind
STAGE_FRAGMENT: StageKind
STAGE_CHAIN: StageKind
EDGE_UNKNOWN: EdgeKind
EDGE_HASH: EdgeKind
EDGE_BROADCAST: EdgeKind
EDGE_ROUND_ROBIN: EdgeKind
EDGE_GATHER: EdgeKind
EDGE_FORWARD: EdgeKind
EDGE_RANGE: EdgeKind
MODE_UNKNOWN: EdgeMode
MODE_MATERIALISED: EdgeMode
MODE_PIPELINED: EdgeMode
JOB_UNKNOWN: JobState
JOB_QUEUED: JobState
JOB_RUNNING: JobState
JOB_FINISHED: JobState
JOB_FAILED: JobState
JOB_CANCELLED: JobState
JOB_RELEASED: JobState

class AgentMessage(_message.Message):
    __slots__ = ("hello", "heartbeat", "task", "sink", "goodbye", "adopted", "replicated", "checkpointed", "slowest")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    REPLICATED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTED_FIELD_NUMBER: _ClassVar[int]
    SLOWEST_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    heartbeat: Heartbeat
    task: TaskReport
    sink: SinkReport
    goodbye: Goodbye
    adopted: Adopted
    replicated: Replicated
    checkpointed: Checkpointed
    slowest: SlowestSplit
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., task: _Optional[_Union[TaskReport, _Mapping]] = ..., sink: _Optional[_Union[SinkReport, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., adopted: _Optional[_Union[Adopted, _Mapping]] = ..., replicated: _Optional[_Union[Replicated, _Mapping]] = ..., checkpointed: _Optional[_Union[Checkpointed, _Mapping]] = ..., slowest: _Optional[_Union[SlowestSplit, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("agent_id", "address", "host", "slots", "cpus", "memory_bytes", "version", "socket", "epoch", "tasks")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SOCKET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    address: str
    host: str
    slots: int
    cpus: int
    memory_bytes: int
    version: str
    socket: UnixSocket
    epoch: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskReport]
    def __init__(self, agent_id: _Optional[str] = ..., address: _Optional[str] = ..., host: _Optional[str] = ..., slots: _Optional[int] = ..., cpus: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., version: _Optional[str] = ..., socket: _Optional[_Union[UnixSocket, _Mapping]] = ..., epoch: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskReport, _Mapping]]] = ...) -> None: ...

class UnixSocket(_message.Message):
    __slots__ = ("host_id", "path")
    HOST_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    host_id: str
    path: str
    def __init__(self, host_id: _Optional[str] = ..., path: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("sequence", "running_tasks", "stored_bytes", "rss_bytes", "overloaded")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RUNNING_TASKS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    OVERLOADED_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    running_tasks: int
    stored_bytes: int
    rss_bytes: int
    overloaded: bool
    def __init__(self, sequence: _Optional[int] = ..., running_tasks: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., rss_bytes: _Optional[int] = ..., overloaded: _Optional[bool] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Adopted(_message.Message):
    __slots__ = ("number", "error")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    number: int
    error: ErrorDetail
    def __init__(self, number: _Optional[int] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class Replicated(_message.Message):
    __slots__ = ("number", "error")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    number: int
    error: ErrorDetail
    def __init__(self, number: _Optional[int] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class TaskKey(_message.Message):
    __slots__ = ("job_id", "stage", "task", "attempt", "epoch")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    stage: int
    task: int
    attempt: int
    epoch: int
    def __init__(self, job_id: _Optional[str] = ..., stage: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class TaskReport(_message.Message):
    __slots__ = ("key", "state", "error", "outputs", "sink_handle", "rows_in", "rows_out", "seconds", "backpressure_ratio", "lost", "ack", "counts", "watermark_us")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    SINK_HANDLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_FIELD_NUMBER: _ClassVar[int]
    ROWS_OUT_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BACKPRESSURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    key: TaskKey
    state: TaskState
    error: ErrorDetail
    outputs: _containers.RepeatedCompositeFieldContainer[EdgeTotals]
    sink_handle: bytes
    rows_in: int
    rows_out: int
    seconds: float
    backpressure_ratio: float
    lost: _containers.RepeatedCompositeFieldContainer[LostInput]
    ack: bytes
    counts: _containers.RepeatedCompositeFieldContainer[Counted]
    watermark_us: int
    def __init__(self, key: _Optional[_Union[TaskKey, _Mapping]] = ..., state: _Optional[_Union[TaskState, str]] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ..., outputs: _Optional[_Iterable[_Union[EdgeTotals, _Mapping]]] = ..., sink_handle: _Optional[bytes] = ..., rows_in: _Optional[int] = ..., rows_out: _Optional[int] = ..., seconds: _Optional[float] = ..., backpressure_ratio: _Optional[float] = ..., lost: _Optional[_Iterable[_Union[LostInput, _Mapping]]] = ..., ack: _Optional[bytes] = ..., counts: _Optional[_Iterable[_Union[Counted, _Mapping]]] = ..., watermark_us: _Optional[int] = ...) -> None: ...

class Counted(_message.Message):
    __slots__ = ("node_path", "name", "n")
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    N_FIELD_NUMBER: _ClassVar[int]
    node_path: str
    name: str
    n: int
    def __init__(self, node_path: _Optional[str] = ..., name: _Optional[str] = ..., n: _Optional[int] = ...) -> None: ...

class Checkpointed(_message.Message):
    __slots__ = ("key", "checkpoint", "ack", "declined", "seconds", "bytes", "counts")
    KEY_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    key: TaskKey
    checkpoint: int
    ack: bytes
    declined: ErrorDetail
    seconds: float
    bytes: int
    counts: _containers.RepeatedCompositeFieldContainer[Counted]
    def __init__(self, key: _Optional[_Union[TaskKey, _Mapping]] = ..., checkpoint: _Optional[int] = ..., ack: _Optional[bytes] = ..., declined: _Optional[_Union[ErrorDetail, _Mapping]] = ..., seconds: _Optional[float] = ..., bytes: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[Counted, _Mapping]]] = ...) -> None: ...

class SlowestSplit(_message.Message):
    __slots__ = ("key", "node_path", "time_us")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    TIME_US_FIELD_NUMBER: _ClassVar[int]
    key: TaskKey
    node_path: str
    time_us: int
    def __init__(self, key: _Optional[_Union[TaskKey, _Mapping]] = ..., node_path: _Optional[str] = ..., time_us: _Optional[int] = ...) -> None: ...

class LostInput(_message.Message):
    __slots__ = ("edge", "task", "attempt", "agent_id", "gone")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    edge: int
    task: int
    attempt: int
    agent_id: str
    gone: bool
    def __init__(self, edge: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., agent_id: _Optional[str] = ..., gone: _Optional[bool] = ...) -> None: ...

class EdgeTotals(_message.Message):
    __slots__ = ("edge", "rows", "bytes", "partition_bytes")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PARTITION_BYTES_FIELD_NUMBER: _ClassVar[int]
    edge: int
    rows: int
    bytes: int
    partition_bytes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, edge: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., partition_bytes: _Optional[_Iterable[int]] = ...) -> None: ...

class SinkReport(_message.Message):
    __slots__ = ("job_id", "stage", "error", "published", "abandoned", "taken_back", "node_path")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    TAKEN_BACK_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    stage: int
    error: ErrorDetail
    published: SinkPublish
    abandoned: SinkAbandon
    taken_back: SinkTakeBack
    node_path: str
    def __init__(self, job_id: _Optional[str] = ..., stage: _Optional[int] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ..., published: _Optional[_Union[SinkPublish, _Mapping]] = ..., abandoned: _Optional[_Union[SinkAbandon, _Mapping]] = ..., taken_back: _Optional[_Union[SinkTakeBack, _Mapping]] = ..., node_path: _Optional[str] = ...) -> None: ...

class CoordinatorMessage(_message.Message):
    __slots__ = ("welcome", "deploy", "cancel", "release", "locations", "sink", "heard", "adopt", "replicate", "keep", "trigger", "ended", "others", "epoch")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    DEPLOY_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    LOCATIONS_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    HEARD_FIELD_NUMBER: _ClassVar[int]
    ADOPT_FIELD_NUMBER: _ClassVar[int]
    REPLICATE_FIELD_NUMBER: _ClassVar[int]
    KEEP_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    OTHERS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    deploy: Deploy
    cancel: CancelTasks
    release: ReleaseJob
    locations: Locations
    sink: SinkCommand
    heard: Heard
    adopt: Adopt
    replicate: Replicate
    keep: KeepPartitions
    trigger: TriggerCheckpoint
    ended: CheckpointEnded
    others: SlowestSplit
    epoch: int
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., deploy: _Optional[_Union[Deploy, _Mapping]] = ..., cancel: _Optional[_Union[CancelTasks, _Mapping]] = ..., release: _Optional[_Union[ReleaseJob, _Mapping]] = ..., locations: _Optional[_Union[Locations, _Mapping]] = ..., sink: _Optional[_Union[SinkCommand, _Mapping]] = ..., heard: _Optional[_Union[Heard, _Mapping]] = ..., adopt: _Optional[_Union[Adopt, _Mapping]] = ..., replicate: _Optional[_Union[Replicate, _Mapping]] = ..., keep: _Optional[_Union[KeepPartitions, _Mapping]] = ..., trigger: _Optional[_Union[TriggerCheckpoint, _Mapping]] = ..., ended: _Optional[_Union[CheckpointEnded, _Mapping]] = ..., others: _Optional[_Union[SlowestSplit, _Mapping]] = ..., epoch: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("epoch", "heartbeat_s", "timeout_s")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_S_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    heartbeat_s: float
    timeout_s: float
    def __init__(self, epoch: _Optional[int] = ..., heartbeat_s: _Optional[float] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class Heard(_message.Message):
    __slots__ = ("sequence",)
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    def __init__(self, sequence: _Optional[int] = ...) -> None: ...

class Adopt(_message.Message):
    __slots__ = ("job_id", "stage", "task", "attempt", "from_agent", "address", "outputs", "number")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FROM_AGENT_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    stage: int
    task: int
    attempt: int
    from_agent: str
    address: str
    outputs: _containers.RepeatedCompositeFieldContainer[OutputEdge]
    number: int
    def __init__(self, job_id: _Optional[str] = ..., stage: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., from_agent: _Optional[str] = ..., address: _Optional[str] = ..., outputs: _Optional[_Iterable[_Union[OutputEdge, _Mapping]]] = ..., number: _Optional[int] = ...) -> None: ...

class Replicate(_message.Message):
    __slots__ = ("number", "dataset", "version", "partition", "schema", "parts", "sources")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    number: int
    dataset: str
    version: int
    partition: int
    schema: bytes
    parts: _containers.RepeatedCompositeFieldContainer[CommittedPart]
    sources: _containers.RepeatedCompositeFieldContainer[ReplicaSource]
    def __init__(self, number: _Optional[int] = ..., dataset: _Optional[str] = ..., version: _Optional[int] = ..., partition: _Optional[int] = ..., schema: _Optional[bytes] = ..., parts: _Optional[_Iterable[_Union[CommittedPart, _Mapping]]] = ..., sources: _Optional[_Iterable[_Union[ReplicaSource, _Mapping]]] = ...) -> None: ...

class ReplicaSource(_message.Message):
    __slots__ = ("agent_id", "address")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    address: str
    def __init__(self, agent_id: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class KeepPartitions(_message.Message):
    __slots__ = ("dataset", "partitions", "parts")
    DATASET_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    dataset: str
    partitions: _containers.RepeatedScalarFieldContainer[int]
    parts: _containers.RepeatedCompositeFieldContainer[CommittedPart]
    def __init__(self, dataset: _Optional[str] = ..., partitions: _Optional[_Iterable[int]] = ..., parts: _Optional[_Iterable[_Union[CommittedPart, _Mapping]]] = ...) -> None: ...

class Deploy(_message.Message):
    __slots__ = ("job_id", "stage", "epoch", "node_path", "kind", "fragment", "n_tasks", "tasks", "inputs", "outputs", "addresses", "target_partitions", "region", "stream", "sink_folder", "run")
    class AddressesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    N_TASKS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    TARGET_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SINK_FOLDER_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    stage: int
    epoch: int
    node_path: str
    kind: StageKind
    fragment: bytes
    n_tasks: int
    tasks: _containers.RepeatedCompositeFieldContainer[TaskAssignment]
    inputs: _containers.RepeatedCompositeFieldContainer[InputEdge]
    outputs: _containers.RepeatedCompositeFieldContainer[OutputEdge]
    addresses: _containers.ScalarMap[str, str]
    target_partitions: int
    region: int
    stream: StreamDeploy
    sink_folder: str
    run: int
    def __init__(self, job_id: _Optional[str] = ..., stage: _Optional[int] = ..., epoch: _Optional[int] = ..., node_path: _Optional[str] = ..., kind: _Optional[_Union[StageKind, str]] = ..., fragment: _Optional[bytes] = ..., n_tasks: _Optional[int] = ..., tasks: _Optional[_Iterable[_Union[TaskAssignment, _Mapping]]] = ..., inputs: _Optional[_Iterable[_Union[InputEdge, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[OutputEdge, _Mapping]]] = ..., addresses: _Optional[_Mapping[str, str]] = ..., target_partitions: _Optional[int] = ..., region: _Optional[int] = ..., stream: _Optional[_Union[StreamDeploy, _Mapping]] = ..., sink_folder: _Optional[str] = ..., run: _Optional[int] = ...) -> None: ...

class StreamDeploy(_message.Message):
    __slots__ = ("folder", "checkpoint", "seal_bytes", "seal_crc32c", "turn", "held_bytes_max", "source_gather_s", "exchange_gather_s", "exchange_behind_s", "states", "state", "drain")
    class StatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: NodeState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[NodeState, _Mapping]] = ...) -> None: ...
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SEAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEAL_CRC32C_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    SOURCE_GATHER_S_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_GATHER_S_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_BEHIND_S_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    folder: str
    checkpoint: int
    seal_bytes: int
    seal_crc32c: int
    turn: int
    held_bytes_max: int
    source_gather_s: float
    exchange_gather_s: float
    exchange_behind_s: float
    states: _containers.MessageMap[str, NodeState]
    state: str
    drain: bool
    def __init__(self, folder: _Optional[str] = ..., checkpoint: _Optional[int] = ..., seal_bytes: _Optional[int] = ..., seal_crc32c: _Optional[int] = ..., turn: _Optional[int] = ..., held_bytes_max: _Optional[int] = ..., source_gather_s: _Optional[float] = ..., exchange_gather_s: _Optional[float] = ..., exchange_behind_s: _Optional[float] = ..., states: _Optional[_Mapping[str, NodeState]] = ..., state: _Optional[str] = ..., drain: _Optional[bool] = ...) -> None: ...

class NodeState(_message.Message):
    __slots__ = ("state", "bytes")
    STATE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    state: str
    bytes: int
    def __init__(self, state: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class TriggerCheckpoint(_message.Message):
    __slots__ = ("job_id", "checkpoint", "keys", "drain", "unaligned")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    UNALIGNED_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    checkpoint: int
    keys: _containers.RepeatedCompositeFieldContainer[TaskKey]
    drain: bool
    unaligned: bool
    def __init__(self, job_id: _Optional[str] = ..., checkpoint: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[TaskKey, _Mapping]]] = ..., drain: _Optional[bool] = ..., unaligned: _Optional[bool] = ...) -> None: ...

class CheckpointEnded(_message.Message):
    __slots__ = ("job_id", "checkpoint", "complete", "reason", "turn")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    checkpoint: int
    complete: bool
    reason: str
    turn: int
    def __init__(self, job_id: _Optional[str] = ..., checkpoint: _Optional[int] = ..., complete: _Optional[bool] = ..., reason: _Optional[str] = ..., turn: _Optional[int] = ...) -> None: ...

class TaskAssignment(_message.Message):
    __slots__ = ("task", "attempt", "scans", "reads")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SCANS_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    task: int
    attempt: int
    scans: _containers.RepeatedCompositeFieldContainer[ScanSplits]
    reads: _containers.RepeatedCompositeFieldContainer[TaskRead]
    def __init__(self, task: _Optional[int] = ..., attempt: _Optional[int] = ..., scans: _Optional[_Iterable[_Union[ScanSplits, _Mapping]]] = ..., reads: _Optional[_Iterable[_Union[TaskRead, _Mapping]]] = ...) -> None: ...

class TaskRead(_message.Message):
    __slots__ = ("edge", "first_partition", "end_partition", "first_producer", "end_producer")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    FIRST_PARTITION_FIELD_NUMBER: _ClassVar[int]
    END_PARTITION_FIELD_NUMBER: _ClassVar[int]
    FIRST_PRODUCER_FIELD_NUMBER: _ClassVar[int]
    END_PRODUCER_FIELD_NUMBER: _ClassVar[int]
    edge: int
    first_partition: int
    end_partition: int
    first_producer: int
    end_producer: int
    def __init__(self, edge: _Optional[int] = ..., first_partition: _Optional[int] = ..., end_partition: _Optional[int] = ..., first_producer: _Optional[int] = ..., end_producer: _Optional[int] = ...) -> None: ...

class ScanSplits(_message.Message):
    __slots__ = ("scan_id", "splits")
    SCAN_ID_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    scan_id: int
    splits: _containers.RepeatedCompositeFieldContainer[Split]
    def __init__(self, scan_id: _Optional[int] = ..., splits: _Optional[_Iterable[_Union[Split, _Mapping]]] = ...) -> None: ...

class Split(_message.Message):
    __slots__ = ("uri", "begin", "end", "ticket", "n_rows", "n_bytes")
    URI_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    N_ROWS_FIELD_NUMBER: _ClassVar[int]
    N_BYTES_FIELD_NUMBER: _ClassVar[int]
    uri: str
    begin: int
    end: int
    ticket: bytes
    n_rows: int
    n_bytes: int
    def __init__(self, uri: _Optional[str] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ..., ticket: _Optional[bytes] = ..., n_rows: _Optional[int] = ..., n_bytes: _Optional[int] = ...) -> None: ...

class Producer(_message.Message):
    __slots__ = ("task", "attempt", "agent_id")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    task: int
    attempt: int
    agent_id: str
    def __init__(self, task: _Optional[int] = ..., attempt: _Optional[int] = ..., agent_id: _Optional[str] = ...) -> None: ...

class InputEdge(_message.Message):
    __slots__ = ("edge", "kind", "mode", "n_partitions", "schema", "producers", "node_path", "compression", "keys", "readers")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    N_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    READERS_FIELD_NUMBER: _ClassVar[int]
    edge: int
    kind: EdgeKind
    mode: EdgeMode
    n_partitions: int
    schema: bytes
    producers: _containers.RepeatedCompositeFieldContainer[Producer]
    node_path: str
    compression: str
    keys: _containers.RepeatedScalarFieldContainer[str]
    readers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, edge: _Optional[int] = ..., kind: _Optional[_Union[EdgeKind, str]] = ..., mode: _Optional[_Union[EdgeMode, str]] = ..., n_partitions: _Optional[int] = ..., schema: _Optional[bytes] = ..., producers: _Optional[_Iterable[_Union[Producer, _Mapping]]] = ..., node_path: _Optional[str] = ..., compression: _Optional[str] = ..., keys: _Optional[_Iterable[str]] = ..., readers: _Optional[_Iterable[str]] = ...) -> None: ...

class OutputEdge(_message.Message):
    __slots__ = ("edge", "kind", "mode", "n_partitions", "schema", "keys", "node_path", "buffer_batches", "consumer_stage", "is_result", "compression", "side")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    N_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    BUFFER_BATCHES_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_STAGE_FIELD_NUMBER: _ClassVar[int]
    IS_RESULT_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    edge: int
    kind: EdgeKind
    mode: EdgeMode
    n_partitions: int
    schema: bytes
    keys: _containers.RepeatedScalarFieldContainer[str]
    node_path: str
    buffer_batches: int
    consumer_stage: int
    is_result: bool
    compression: str
    side: str
    def __init__(self, edge: _Optional[int] = ..., kind: _Optional[_Union[EdgeKind, str]] = ..., mode: _Optional[_Union[EdgeMode, str]] = ..., n_partitions: _Optional[int] = ..., schema: _Optional[bytes] = ..., keys: _Optional[_Iterable[str]] = ..., node_path: _Optional[str] = ..., buffer_batches: _Optional[int] = ..., consumer_stage: _Optional[int] = ..., is_result: _Optional[bool] = ..., compression: _Optional[str] = ..., side: _Optional[str] = ...) -> None: ...

class CancelTasks(_message.Message):
    __slots__ = ("job_id", "reason", "run", "keys", "moved")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    reason: str
    run: int
    keys: _containers.RepeatedCompositeFieldContainer[TaskKey]
    moved: bool
    def __init__(self, job_id: _Optional[str] = ..., reason: _Optional[str] = ..., run: _Optional[int] = ..., keys: _Optional[_Iterable[_Union[TaskKey, _Mapping]]] = ..., moved: _Optional[bool] = ...) -> None: ...

class ReleaseJob(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class SinkCommand(_message.Message):
    __slots__ = ("job_id", "stage", "node_path", "handles", "fragment", "plan", "folder", "state", "publish", "abandon", "take_back", "drop")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    ABANDON_FIELD_NUMBER: _ClassVar[int]
    TAKE_BACK_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    stage: int
    node_path: str
    handles: _containers.RepeatedScalarFieldContainer[bytes]
    fragment: bytes
    plan: bytes
    folder: str
    state: str
    publish: SinkPublish
    abandon: SinkAbandon
    take_back: SinkTakeBack
    drop: SinkDrop
    def __init__(self, job_id: _Optional[str] = ..., stage: _Optional[int] = ..., node_path: _Optional[str] = ..., handles: _Optional[_Iterable[bytes]] = ..., fragment: _Optional[bytes] = ..., plan: _Optional[bytes] = ..., folder: _Optional[str] = ..., state: _Optional[str] = ..., publish: _Optional[_Union[SinkPublish, _Mapping]] = ..., abandon: _Optional[_Union[SinkAbandon, _Mapping]] = ..., take_back: _Optional[_Union[SinkTakeBack, _Mapping]] = ..., drop: _Optional[_Union[SinkDrop, _Mapping]] = ...) -> None: ...

class SinkPublish(_message.Message):
    __slots__ = ("checkpoint",)
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    def __init__(self, checkpoint: _Optional[int] = ...) -> None: ...

class SinkAbandon(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SinkTakeBack(_message.Message):
    __slots__ = ("checkpoint", "kept")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    kept: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, checkpoint: _Optional[int] = ..., kept: _Optional[_Iterable[bytes]] = ...) -> None: ...

class SinkDrop(_message.Message):
    __slots__ = ("kept",)
    KEPT_FIELD_NUMBER: _ClassVar[int]
    kept: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, kept: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Locations(_message.Message):
    __slots__ = ("version", "full", "edges", "datasets", "addresses", "dropped_jobs", "dropped_datasets", "sockets", "states")
    class AddressesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SocketsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: UnixSocket
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[UnixSocket, _Mapping]] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_JOBS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_DATASETS_FIELD_NUMBER: _ClassVar[int]
    SOCKETS_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    version: int
    full: bool
    edges: _containers.RepeatedCompositeFieldContainer[EdgeLocation]
    datasets: _containers.RepeatedCompositeFieldContainer[DatasetLocation]
    addresses: _containers.ScalarMap[str, str]
    dropped_jobs: _containers.RepeatedScalarFieldContainer[str]
    dropped_datasets: _containers.RepeatedScalarFieldContainer[str]
    sockets: _containers.MessageMap[str, UnixSocket]
    states: _containers.RepeatedCompositeFieldContainer[StreamStates]
    def __init__(self, version: _Optional[int] = ..., full: _Optional[bool] = ..., edges: _Optional[_Iterable[_Union[EdgeLocation, _Mapping]]] = ..., datasets: _Optional[_Iterable[_Union[DatasetLocation, _Mapping]]] = ..., addresses: _Optional[_Mapping[str, str]] = ..., dropped_jobs: _Optional[_Iterable[str]] = ..., dropped_datasets: _Optional[_Iterable[str]] = ..., sockets: _Optional[_Mapping[str, UnixSocket]] = ..., states: _Optional[_Iterable[_Union[StreamStates, _Mapping]]] = ...) -> None: ...

class StreamStates(_message.Message):
    __slots__ = ("job_id", "folder", "state", "checkpoint", "seal_bytes", "seal_crc32c", "fragments")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SEAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEAL_CRC32C_FIELD_NUMBER: _ClassVar[int]
    FRAGMENTS_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    folder: str
    state: str
    checkpoint: int
    seal_bytes: int
    seal_crc32c: int
    fragments: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, job_id: _Optional[str] = ..., folder: _Optional[str] = ..., state: _Optional[str] = ..., checkpoint: _Optional[int] = ..., seal_bytes: _Optional[int] = ..., seal_crc32c: _Optional[int] = ..., fragments: _Optional[_Iterable[bytes]] = ...) -> None: ...

class EdgeLocation(_message.Message):
    __slots__ = ("job_id", "node_path", "edge", "schema", "n_partitions", "kind", "mode", "producers", "complete", "rows", "bytes", "is_result", "n_producers", "state", "release_s", "error", "ordered")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    N_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_RESULT_FIELD_NUMBER: _ClassVar[int]
    N_PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_S_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    node_path: str
    edge: int
    schema: bytes
    n_partitions: int
    kind: EdgeKind
    mode: EdgeMode
    producers: _containers.RepeatedCompositeFieldContainer[Producer]
    complete: bool
    rows: int
    bytes: int
    is_result: bool
    n_producers: int
    state: JobState
    release_s: float
    error: str
    ordered: bool
    def __init__(self, job_id: _Optional[str] = ..., node_path: _Optional[str] = ..., edge: _Optional[int] = ..., schema: _Optional[bytes] = ..., n_partitions: _Optional[int] = ..., kind: _Optional[_Union[EdgeKind, str]] = ..., mode: _Optional[_Union[EdgeMode, str]] = ..., producers: _Optional[_Iterable[_Union[Producer, _Mapping]]] = ..., complete: _Optional[bool] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., is_result: _Optional[bool] = ..., n_producers: _Optional[int] = ..., state: _Optional[_Union[JobState, str]] = ..., release_s: _Optional[float] = ..., error: _Optional[str] = ..., ordered: _Optional[bool] = ...) -> None: ...

class DatasetLocation(_message.Message):
    __slots__ = ("name", "version", "schema", "keys", "n_partitions", "owners", "parts", "rows", "replicas", "made_by")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    N_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    schema: bytes
    keys: _containers.RepeatedScalarFieldContainer[str]
    n_partitions: int
    owners: _containers.RepeatedScalarFieldContainer[str]
    parts: _containers.RepeatedCompositeFieldContainer[CommittedPart]
    rows: int
    replicas: int
    made_by: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., schema: _Optional[bytes] = ..., keys: _Optional[_Iterable[str]] = ..., n_partitions: _Optional[int] = ..., owners: _Optional[_Iterable[str]] = ..., parts: _Optional[_Iterable[_Union[CommittedPart, _Mapping]]] = ..., rows: _Optional[int] = ..., replicas: _Optional[int] = ..., made_by: _Optional[str] = ...) -> None: ...

class CommittedPart(_message.Message):
    __slots__ = ("transaction", "writer", "attempt", "rows")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    writer: str
    attempt: int
    rows: int
    def __init__(self, transaction: _Optional[str] = ..., writer: _Optional[str] = ..., attempt: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("plan", "name", "client_key", "parallelism", "adaptive", "checkpoint", "latency_us", "stream", "reactive")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    ADAPTIVE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    REACTIVE_FIELD_NUMBER: _ClassVar[int]
    plan: bytes
    name: str
    client_key: str
    parallelism: int
    adaptive: Adaptive
    checkpoint: Checkpointing
    latency_us: int
    stream: StreamName
    reactive: bool
    def __init__(self, plan: _Optional[bytes] = ..., name: _Optional[str] = ..., client_key: _Optional[str] = ..., parallelism: _Optional[int] = ..., adaptive: _Optional[_Union[Adaptive, _Mapping]] = ..., checkpoint: _Optional[_Union[Checkpointing, _Mapping]] = ..., latency_us: _Optional[int] = ..., stream: _Optional[_Union[StreamName, _Mapping]] = ..., reactive: _Optional[bool] = ...) -> None: ...

class StreamName(_message.Message):
    __slots__ = ("name", "on_existing", "restore", "renames", "drop")
    class RenamesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ON_EXISTING_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    RENAMES_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    name: str
    on_existing: str
    restore: str
    renames: _containers.ScalarMap[str, str]
    drop: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., on_existing: _Optional[str] = ..., restore: _Optional[str] = ..., renames: _Optional[_Mapping[str, str]] = ..., drop: _Optional[_Iterable[str]] = ...) -> None: ...

class StreamOrigin(_message.Message):
    __slots__ = ("name", "checkpoint", "begun_s", "states", "bytes", "start", "state", "savepoint", "changes", "rows")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    BEGUN_S_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SAVEPOINT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    name: str
    checkpoint: int
    begun_s: float
    states: int
    bytes: int
    start: int
    state: str
    savepoint: str
    changes: _containers.RepeatedScalarFieldContainer[str]
    rows: int
    def __init__(self, name: _Optional[str] = ..., checkpoint: _Optional[int] = ..., begun_s: _Optional[float] = ..., states: _Optional[int] = ..., bytes: _Optional[int] = ..., start: _Optional[int] = ..., state: _Optional[str] = ..., savepoint: _Optional[str] = ..., changes: _Optional[_Iterable[str]] = ..., rows: _Optional[int] = ...) -> None: ...

class Checkpointing(_message.Message):
    __slots__ = ("interval_s", "min_pause_s", "timeout_s", "failures_max", "retained", "held_bytes_max", "state", "seen_twice", "folder", "state_memory", "unaligned_after_s")
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    MIN_PAUSE_S_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    FAILURES_MAX_FIELD_NUMBER: _ClassVar[int]
    RETAINED_FIELD_NUMBER: _ClassVar[int]
    HELD_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEEN_TWICE_FIELD_NUMBER: _ClassVar[int]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    STATE_MEMORY_FIELD_NUMBER: _ClassVar[int]
    UNALIGNED_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    interval_s: float
    min_pause_s: float
    timeout_s: float
    failures_max: int
    retained: int
    held_bytes_max: int
    state: str
    seen_twice: bool
    folder: str
    state_memory: int
    unaligned_after_s: float
    def __init__(self, interval_s: _Optional[float] = ..., min_pause_s: _Optional[float] = ..., timeout_s: _Optional[float] = ..., failures_max: _Optional[int] = ..., retained: _Optional[int] = ..., held_bytes_max: _Optional[int] = ..., state: _Optional[str] = ..., seen_twice: _Optional[bool] = ..., folder: _Optional[str] = ..., state_memory: _Optional[int] = ..., unaligned_after_s: _Optional[float] = ...) -> None: ...

class Adaptive(_message.Message):
    __slots__ = ("enabled", "broadcast_bytes", "target_bytes", "tiny_bytes", "skew_factor")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_BYTES_FIELD_NUMBER: _ClassVar[int]
    TARGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    TINY_BYTES_FIELD_NUMBER: _ClassVar[int]
    SKEW_FACTOR_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    broadcast_bytes: int
    target_bytes: int
    tiny_bytes: int
    skew_factor: float
    def __init__(self, enabled: _Optional[bool] = ..., broadcast_bytes: _Optional[int] = ..., target_bytes: _Optional[int] = ..., tiny_bytes: _Optional[int] = ..., skew_factor: _Optional[float] = ...) -> None: ...

class ExplainReply(_message.Message):
    __slots__ = ("plan", "optimised", "stages", "svg", "rules", "rules_verbose", "changes", "refused")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    OPTIMISED_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    SVG_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    RULES_VERBOSE_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    plan: str
    optimised: str
    stages: str
    svg: str
    rules: str
    rules_verbose: str
    changes: _containers.RepeatedScalarFieldContainer[str]
    refused: bool
    def __init__(self, plan: _Optional[str] = ..., optimised: _Optional[str] = ..., stages: _Optional[str] = ..., svg: _Optional[str] = ..., rules: _Optional[str] = ..., rules_verbose: _Optional[str] = ..., changes: _Optional[_Iterable[str]] = ..., refused: _Optional[bool] = ...) -> None: ...

class JobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class RescaleRequest(_message.Message):
    __slots__ = ("job_id", "parallelism", "reactive")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    REACTIVE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    parallelism: int
    reactive: bool
    def __init__(self, job_id: _Optional[str] = ..., parallelism: _Optional[int] = ..., reactive: _Optional[bool] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("limit", "before", "states", "lost")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    limit: int
    before: str
    states: _containers.RepeatedScalarFieldContainer[JobState]
    lost: bool
    def __init__(self, limit: _Optional[int] = ..., before: _Optional[str] = ..., states: _Optional[_Iterable[_Union[JobState, str]]] = ..., lost: _Optional[bool] = ...) -> None: ...

class RestartRequest(_message.Message):
    __slots__ = ("job_id", "from_path")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_PATH_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    from_path: str
    def __init__(self, job_id: _Optional[str] = ..., from_path: _Optional[str] = ...) -> None: ...

class AgentRequest(_message.Message):
    __slots__ = ("agent_id",)
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    def __init__(self, agent_id: _Optional[str] = ...) -> None: ...

class CheckpointsRequest(_message.Message):
    __slots__ = ("job_id", "checkpoint")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    checkpoint: int
    def __init__(self, job_id: _Optional[str] = ..., checkpoint: _Optional[int] = ...) -> None: ...

class CheckpointStatus(_message.Message):
    __slots__ = ("checkpoint", "state", "begun_s", "seconds", "bytes", "files", "reason", "parts", "unaligned", "inflight_bytes")
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    BEGUN_S_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    UNALIGNED_FIELD_NUMBER: _ClassVar[int]
    INFLIGHT_BYTES_FIELD_NUMBER: _ClassVar[int]
    checkpoint: int
    state: str
    begun_s: float
    seconds: float
    bytes: int
    files: int
    reason: str
    parts: _containers.RepeatedCompositeFieldContainer[CheckpointPart]
    unaligned: bool
    inflight_bytes: int
    def __init__(self, checkpoint: _Optional[int] = ..., state: _Optional[str] = ..., begun_s: _Optional[float] = ..., seconds: _Optional[float] = ..., bytes: _Optional[int] = ..., files: _Optional[int] = ..., reason: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[CheckpointPart, _Mapping]]] = ..., unaligned: _Optional[bool] = ..., inflight_bytes: _Optional[int] = ...) -> None: ...

class CheckpointPart(_message.Message):
    __slots__ = ("node_path", "task", "attempt", "files", "bytes", "splits", "handles")
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SPLITS_FIELD_NUMBER: _ClassVar[int]
    HANDLES_FIELD_NUMBER: _ClassVar[int]
    node_path: str
    task: int
    attempt: int
    files: int
    bytes: int
    splits: int
    handles: int
    def __init__(self, node_path: _Optional[str] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., splits: _Optional[int] = ..., handles: _Optional[int] = ...) -> None: ...

class CheckpointList(_message.Message):
    __slots__ = ("checkpoints",)
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[CheckpointStatus]
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[CheckpointStatus, _Mapping]]] = ...) -> None: ...

class TakeCheckpointRequest(_message.Message):
    __slots__ = ("job_id", "key", "savepoint", "then", "again")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SAVEPOINT_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    key: str
    savepoint: str
    then: str
    again: bool
    def __init__(self, job_id: _Optional[str] = ..., key: _Optional[str] = ..., savepoint: _Optional[str] = ..., then: _Optional[str] = ..., again: _Optional[bool] = ...) -> None: ...

class TakenCheckpoint(_message.Message):
    __slots__ = ("state", "error", "checkpoint", "savepoint")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    SAVEPOINT_FIELD_NUMBER: _ClassVar[int]
    state: str
    error: ErrorDetail
    checkpoint: int
    savepoint: SavepointStatus
    def __init__(self, state: _Optional[str] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ..., checkpoint: _Optional[int] = ..., savepoint: _Optional[_Union[SavepointStatus, _Mapping]] = ...) -> None: ...

class SavepointsRequest(_message.Message):
    __slots__ = ("name", "checkpoint")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    name: str
    checkpoint: Checkpointing
    def __init__(self, name: _Optional[str] = ..., checkpoint: _Optional[_Union[Checkpointing, _Mapping]] = ...) -> None: ...

class SavepointStatus(_message.Message):
    __slots__ = ("name", "stream", "job_id", "job_name", "checkpoint", "created_s", "bytes", "files", "states", "release", "location", "error", "rows")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_NAME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CREATED_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    name: str
    stream: str
    job_id: str
    job_name: str
    checkpoint: int
    created_s: float
    bytes: int
    files: int
    states: int
    release: str
    location: str
    error: str
    rows: int
    def __init__(self, name: _Optional[str] = ..., stream: _Optional[str] = ..., job_id: _Optional[str] = ..., job_name: _Optional[str] = ..., checkpoint: _Optional[int] = ..., created_s: _Optional[float] = ..., bytes: _Optional[int] = ..., files: _Optional[int] = ..., states: _Optional[int] = ..., release: _Optional[str] = ..., location: _Optional[str] = ..., error: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class SavepointList(_message.Message):
    __slots__ = ("savepoints",)
    SAVEPOINTS_FIELD_NUMBER: _ClassVar[int]
    savepoints: _containers.RepeatedCompositeFieldContainer[SavepointStatus]
    def __init__(self, savepoints: _Optional[_Iterable[_Union[SavepointStatus, _Mapping]]] = ...) -> None: ...

class StreamsRequest(_message.Message):
    __slots__ = ("name", "checkpoint")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    name: str
    checkpoint: Checkpointing
    def __init__(self, name: _Optional[str] = ..., checkpoint: _Optional[_Union[Checkpointing, _Mapping]] = ...) -> None: ...

class StreamRecord(_message.Message):
    __slots__ = ("name", "job_id", "starts", "ended", "runs_in", "checkpoint", "created_s", "bytes", "states", "error", "rows")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STARTS_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    RUNS_IN_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    CREATED_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    name: str
    job_id: str
    starts: int
    ended: bool
    runs_in: str
    checkpoint: int
    created_s: float
    bytes: int
    states: int
    error: str
    rows: int
    def __init__(self, name: _Optional[str] = ..., job_id: _Optional[str] = ..., starts: _Optional[int] = ..., ended: _Optional[bool] = ..., runs_in: _Optional[str] = ..., checkpoint: _Optional[int] = ..., created_s: _Optional[float] = ..., bytes: _Optional[int] = ..., states: _Optional[int] = ..., error: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class StreamList(_message.Message):
    __slots__ = ("streams",)
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[StreamRecord]
    def __init__(self, streams: _Optional[_Iterable[_Union[StreamRecord, _Mapping]]] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("job_id", "last")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    last: int
    def __init__(self, job_id: _Optional[str] = ..., last: _Optional[int] = ...) -> None: ...

class EventRecord(_message.Message):
    __slots__ = ("number", "wall_s", "kind", "job_id", "agent_id", "text", "who", "epoch")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WALL_S_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    number: int
    wall_s: float
    kind: str
    job_id: str
    agent_id: str
    text: str
    who: str
    epoch: int
    def __init__(self, number: _Optional[int] = ..., wall_s: _Optional[float] = ..., kind: _Optional[str] = ..., job_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., text: _Optional[str] = ..., who: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class EventList(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[EventRecord]
    def __init__(self, events: _Optional[_Iterable[_Union[EventRecord, _Mapping]]] = ...) -> None: ...

class TaskStatus(_message.Message):
    __slots__ = ("stage", "task", "attempt", "node_path", "agent_id", "state", "started_s", "ended_s", "rows_in", "rows_out", "backpressure_ratio", "error", "epoch", "watermark_us")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_FIELD_NUMBER: _ClassVar[int]
    ROWS_OUT_FIELD_NUMBER: _ClassVar[int]
    BACKPRESSURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    stage: int
    task: int
    attempt: int
    node_path: str
    agent_id: str
    state: TaskState
    started_s: float
    ended_s: float
    rows_in: int
    rows_out: int
    backpressure_ratio: float
    error: ErrorDetail
    epoch: int
    watermark_us: int
    def __init__(self, stage: _Optional[int] = ..., task: _Optional[int] = ..., attempt: _Optional[int] = ..., node_path: _Optional[str] = ..., agent_id: _Optional[str] = ..., state: _Optional[_Union[TaskState, str]] = ..., started_s: _Optional[float] = ..., ended_s: _Optional[float] = ..., rows_in: _Optional[int] = ..., rows_out: _Optional[int] = ..., backpressure_ratio: _Optional[float] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ..., epoch: _Optional[int] = ..., watermark_us: _Optional[int] = ...) -> None: ...

class TaskList(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskStatus]
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskStatus, _Mapping]]] = ...) -> None: ...

class LocateRequest(_message.Message):
    __slots__ = ("job_id", "dataset", "states")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    dataset: str
    states: bool
    def __init__(self, job_id: _Optional[str] = ..., dataset: _Optional[str] = ..., states: _Optional[bool] = ...) -> None: ...

class JobStatus(_message.Message):
    __slots__ = ("job_id", "name", "state", "stages", "error", "submitted_s", "seconds", "result_path", "result_schema", "result_rows", "errors", "n_attempts", "run", "parallelism", "rescaling", "reactive", "client_key", "stream", "waiting", "stopped_at")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_S_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    RESULT_PATH_FIELD_NUMBER: _ClassVar[int]
    RESULT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    RESULT_ROWS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    N_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    RESCALING_FIELD_NUMBER: _ClassVar[int]
    REACTIVE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    STOPPED_AT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    name: str
    state: JobState
    stages: _containers.RepeatedCompositeFieldContainer[StageStatus]
    error: ErrorDetail
    submitted_s: float
    seconds: float
    result_path: str
    result_schema: bytes
    result_rows: int
    errors: _containers.RepeatedCompositeFieldContainer[ErrorDetail]
    n_attempts: int
    run: int
    parallelism: int
    rescaling: int
    reactive: bool
    client_key: str
    stream: StreamOrigin
    waiting: str
    stopped_at: int
    def __init__(self, job_id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., stages: _Optional[_Iterable[_Union[StageStatus, _Mapping]]] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ..., submitted_s: _Optional[float] = ..., seconds: _Optional[float] = ..., result_path: _Optional[str] = ..., result_schema: _Optional[bytes] = ..., result_rows: _Optional[int] = ..., errors: _Optional[_Iterable[_Union[ErrorDetail, _Mapping]]] = ..., n_attempts: _Optional[int] = ..., run: _Optional[int] = ..., parallelism: _Optional[int] = ..., rescaling: _Optional[int] = ..., reactive: _Optional[bool] = ..., client_key: _Optional[str] = ..., stream: _Optional[_Union[StreamOrigin, _Mapping]] = ..., waiting: _Optional[str] = ..., stopped_at: _Optional[int] = ...) -> None: ...

class StageStatus(_message.Message):
    __slots__ = ("stage", "node_path", "n_tasks", "running", "finished", "rows", "bytes", "backpressure_ratio", "adapted", "rows_in", "watermark_us", "counts")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    N_TASKS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BACKPRESSURE_RATIO_FIELD_NUMBER: _ClassVar[int]
    ADAPTED_FIELD_NUMBER: _ClassVar[int]
    ROWS_IN_FIELD_NUMBER: _ClassVar[int]
    WATERMARK_US_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    stage: int
    node_path: str
    n_tasks: int
    running: int
    finished: int
    rows: int
    bytes: int
    backpressure_ratio: float
    adapted: _containers.RepeatedScalarFieldContainer[str]
    rows_in: int
    watermark_us: int
    counts: _containers.RepeatedCompositeFieldContainer[Counted]
    def __init__(self, stage: _Optional[int] = ..., node_path: _Optional[str] = ..., n_tasks: _Optional[int] = ..., running: _Optional[int] = ..., finished: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., backpressure_ratio: _Optional[float] = ..., adapted: _Optional[_Iterable[str]] = ..., rows_in: _Optional[int] = ..., watermark_us: _Optional[int] = ..., counts: _Optional[_Iterable[_Union[Counted, _Mapping]]] = ...) -> None: ...

class JobList(_message.Message):
    __slots__ = ("jobs", "next")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[JobStatus]
    next: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[JobStatus, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class AgentStatus(_message.Message):
    __slots__ = ("agent_id", "address", "state", "slots", "running_tasks", "stored_bytes", "rss_bytes", "seen_s_ago", "version", "memory_bytes", "host")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_TASKS_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    RSS_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEEN_S_AGO_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    address: str
    state: str
    slots: int
    running_tasks: int
    stored_bytes: int
    rss_bytes: int
    seen_s_ago: float
    version: str
    memory_bytes: int
    host: str
    def __init__(self, agent_id: _Optional[str] = ..., address: _Optional[str] = ..., state: _Optional[str] = ..., slots: _Optional[int] = ..., running_tasks: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., rss_bytes: _Optional[int] = ..., seen_s_ago: _Optional[float] = ..., version: _Optional[str] = ..., memory_bytes: _Optional[int] = ..., host: _Optional[str] = ...) -> None: ...

class AgentList(_message.Message):
    __slots__ = ("agents",)
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[AgentStatus]
    def __init__(self, agents: _Optional[_Iterable[_Union[AgentStatus, _Mapping]]] = ...) -> None: ...

class DatasetRequest(_message.Message):
    __slots__ = ("begin", "commit", "abort", "drop", "list", "view", "take_back")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ABORT_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    TAKE_BACK_FIELD_NUMBER: _ClassVar[int]
    begin: DatasetBegin
    commit: DatasetCommit
    abort: DatasetAbort
    drop: DatasetDrop
    list: DatasetList
    view: DatasetView
    take_back: DatasetTakeBack
    def __init__(self, begin: _Optional[_Union[DatasetBegin, _Mapping]] = ..., commit: _Optional[_Union[DatasetCommit, _Mapping]] = ..., abort: _Optional[_Union[DatasetAbort, _Mapping]] = ..., drop: _Optional[_Union[DatasetDrop, _Mapping]] = ..., list: _Optional[_Union[DatasetList, _Mapping]] = ..., view: _Optional[_Union[DatasetView, _Mapping]] = ..., take_back: _Optional[_Union[DatasetTakeBack, _Mapping]] = ...) -> None: ...

class DatasetBegin(_message.Message):
    __slots__ = ("name", "schema", "keys", "n_partitions", "mode", "idempotency_key", "replicas", "subject")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    N_PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema: bytes
    keys: _containers.RepeatedScalarFieldContainer[str]
    n_partitions: int
    mode: str
    idempotency_key: str
    replicas: int
    subject: str
    def __init__(self, name: _Optional[str] = ..., schema: _Optional[bytes] = ..., keys: _Optional[_Iterable[str]] = ..., n_partitions: _Optional[int] = ..., mode: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., replicas: _Optional[int] = ..., subject: _Optional[str] = ...) -> None: ...

class DatasetCommit(_message.Message):
    __slots__ = ("transaction", "parts")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    parts: _containers.RepeatedCompositeFieldContainer[CommittedPart]
    def __init__(self, transaction: _Optional[str] = ..., parts: _Optional[_Iterable[_Union[CommittedPart, _Mapping]]] = ...) -> None: ...

class DatasetAbort(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    def __init__(self, transaction: _Optional[str] = ...) -> None: ...

class DatasetDrop(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DatasetList(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DatasetTakeBack(_message.Message):
    __slots__ = ("transaction",)
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    def __init__(self, transaction: _Optional[str] = ...) -> None: ...

class DatasetView(_message.Message):
    __slots__ = ("name", "schema", "keys", "owners", "transaction", "rows")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    name: str
    schema: bytes
    keys: _containers.RepeatedScalarFieldContainer[str]
    owners: _containers.RepeatedScalarFieldContainer[str]
    transaction: str
    rows: int
    def __init__(self, name: _Optional[str] = ..., schema: _Optional[bytes] = ..., keys: _Optional[_Iterable[str]] = ..., owners: _Optional[_Iterable[str]] = ..., transaction: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class DatasetReply(_message.Message):
    __slots__ = ("transaction", "location", "datasets", "addresses")
    class AddressesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    location: DatasetLocation
    datasets: _containers.RepeatedCompositeFieldContainer[DatasetLocation]
    addresses: _containers.ScalarMap[str, str]
    def __init__(self, transaction: _Optional[str] = ..., location: _Optional[_Union[DatasetLocation, _Mapping]] = ..., datasets: _Optional[_Iterable[_Union[DatasetLocation, _Mapping]]] = ..., addresses: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Leadership(_message.Message):
    __slots__ = ("epoch", "address")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    address: str
    def __init__(self, epoch: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class StoredPlan(_message.Message):
    __slots__ = ("name", "client_key", "schema", "submitted_s", "adaptive", "stages", "edges", "checkpoint", "latency_us", "stream", "plan", "parallelism", "reactive", "planned")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLIENT_KEY_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_S_FIELD_NUMBER: _ClassVar[int]
    ADAPTIVE_FIELD_NUMBER: _ClassVar[int]
    STAGES_FIELD_NUMBER: _ClassVar[int]
    EDGES_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    REACTIVE_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    name: str
    client_key: str
    schema: bytes
    submitted_s: float
    adaptive: Adaptive
    stages: _containers.RepeatedCompositeFieldContainer[StoredStage]
    edges: _containers.RepeatedCompositeFieldContainer[StoredEdge]
    checkpoint: Checkpointing
    latency_us: int
    stream: StreamOrigin
    plan: bytes
    parallelism: int
    reactive: bool
    planned: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., client_key: _Optional[str] = ..., schema: _Optional[bytes] = ..., submitted_s: _Optional[float] = ..., adaptive: _Optional[_Union[Adaptive, _Mapping]] = ..., stages: _Optional[_Iterable[_Union[StoredStage, _Mapping]]] = ..., edges: _Optional[_Iterable[_Union[StoredEdge, _Mapping]]] = ..., checkpoint: _Optional[_Union[Checkpointing, _Mapping]] = ..., latency_us: _Optional[int] = ..., stream: _Optional[_Union[StreamOrigin, _Mapping]] = ..., plan: _Optional[bytes] = ..., parallelism: _Optional[int] = ..., reactive: _Optional[bool] = ..., planned: _Optional[_Iterable[int]] = ...) -> None: ...

class StoredStage(_message.Message):
    __slots__ = ("path", "kind", "fragment", "n_tasks", "region", "is_sink", "tasks", "adapted", "added", "latency_us", "states")
    class StatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: NodeState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[NodeState, _Mapping]] = ...) -> None: ...
    PATH_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FRAGMENT_FIELD_NUMBER: _ClassVar[int]
    N_TASKS_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    IS_SINK_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    ADAPTED_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    LATENCY_US_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    path: str
    kind: StageKind
    fragment: bytes
    n_tasks: int
    region: int
    is_sink: bool
    tasks: _containers.RepeatedCompositeFieldContainer[TaskAssignment]
    adapted: _containers.RepeatedScalarFieldContainer[str]
    added: bool
    latency_us: int
    states: _containers.MessageMap[str, NodeState]
    def __init__(self, path: _Optional[str] = ..., kind: _Optional[_Union[StageKind, str]] = ..., fragment: _Optional[bytes] = ..., n_tasks: _Optional[int] = ..., region: _Optional[int] = ..., is_sink: _Optional[bool] = ..., tasks: _Optional[_Iterable[_Union[TaskAssignment, _Mapping]]] = ..., adapted: _Optional[_Iterable[str]] = ..., added: _Optional[bool] = ..., latency_us: _Optional[int] = ..., states: _Optional[_Mapping[str, NodeState]] = ...) -> None: ...

class StoredEdge(_message.Message):
    __slots__ = ("edge", "producer", "adaptive", "ordered")
    EDGE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    ADAPTIVE_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    edge: OutputEdge
    producer: int
    adaptive: bool
    ordered: bool
    def __init__(self, edge: _Optional[_Union[OutputEdge, _Mapping]] = ..., producer: _Optional[int] = ..., adaptive: _Optional[bool] = ..., ordered: _Optional[bool] = ...) -> None: ...

class StoredTask(_message.Message):
    __slots__ = ("status", "outputs", "sink_handle", "failures", "given", "lost")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    SINK_HANDLE_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    status: TaskStatus
    outputs: _containers.RepeatedCompositeFieldContainer[EdgeTotals]
    sink_handle: bytes
    failures: int
    given: bool
    lost: bool
    def __init__(self, status: _Optional[_Union[TaskStatus, _Mapping]] = ..., outputs: _Optional[_Iterable[_Union[EdgeTotals, _Mapping]]] = ..., sink_handle: _Optional[bytes] = ..., failures: _Optional[int] = ..., given: _Optional[bool] = ..., lost: _Optional[bool] = ...) -> None: ...

class StoredJob(_message.Message):
    __slots__ = ("status", "published", "publishing", "ended_s", "stopping", "error", "release")
    class PublishingEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    PUBLISHING_FIELD_NUMBER: _ClassVar[int]
    ENDED_S_FIELD_NUMBER: _ClassVar[int]
    STOPPING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    status: JobStatus
    published: _containers.RepeatedScalarFieldContainer[int]
    publishing: _containers.ScalarMap[int, str]
    ended_s: float
    stopping: JobState
    error: ErrorDetail
    release: bool
    def __init__(self, status: _Optional[_Union[JobStatus, _Mapping]] = ..., published: _Optional[_Iterable[int]] = ..., publishing: _Optional[_Mapping[int, str]] = ..., ended_s: _Optional[float] = ..., stopping: _Optional[_Union[JobState, str]] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ..., release: _Optional[bool] = ...) -> None: ...

class StoredAgent(_message.Message):
    __slots__ = ("hello", "draining", "state", "seen_s")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEEN_S_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    draining: bool
    state: str
    seen_s: float
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., draining: _Optional[bool] = ..., state: _Optional[str] = ..., seen_s: _Optional[float] = ...) -> None: ...

class ErrorFrame(_message.Message):
    __slots__ = ("code", "message", "details")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    details: _containers.RepeatedCompositeFieldContainer[FramedDetail]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[_Iterable[_Union[FramedDetail, _Mapping]]] = ...) -> None: ...

class FramedDetail(_message.Message):
    __slots__ = ("type_url", "value")
    TYPE_URL_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    type_url: str
    value: bytes
    def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class ErrorDetail(_message.Message):
    __slots__ = ("kind", "message", "job", "node", "task", "agent")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    message: str
    job: str
    node: str
    task: str
    agent: str
    def __init__(self, kind: _Optional[str] = ..., message: _Optional[str] = ..., job: _Optional[str] = ..., node: _Optional[str] = ..., task: _Optional[str] = ..., agent: _Optional[str] = ...) -> None: ...
