from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Event(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROWS: _ClassVar[Event]
    WATERMARK: _ClassVar[Event]
    BARRIER: _ClassVar[Event]
    END: _ClassVar[Event]

class Tap(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NO_TAP: _ClassVar[Tap]
    LOSSY: _ClassVar[Tap]
    LOSSLESS: _ClassVar[Tap]
ROWS: Event
WATERMARK: Event
BARRIER: Event
END: Event
NO_TAP: Tap
LOSSY: Tap
LOSSLESS: Tap

class PartitionRows(_message.Message):
    __slots__ = ("partition", "rows", "charge")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    CHARGE_FIELD_NUMBER: _ClassVar[int]
    partition: int
    rows: int
    charge: int
    def __init__(self, partition: _Optional[int] = ..., rows: _Optional[int] = ..., charge: _Optional[int] = ...) -> None: ...

class EdgeHeader(_message.Message):
    __slots__ = ("version", "job_id", "edge", "producer", "attempt", "epoch", "sequence", "partitions", "crc32c", "event", "event_value", "total_rows", "total_bytes")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    EVENT_VALUE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_ROWS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    version: int
    job_id: str
    edge: int
    producer: int
    attempt: int
    epoch: int
    sequence: int
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionRows]
    crc32c: int
    event: Event
    event_value: int
    total_rows: int
    total_bytes: int
    def __init__(self, version: _Optional[int] = ..., job_id: _Optional[str] = ..., edge: _Optional[int] = ..., producer: _Optional[int] = ..., attempt: _Optional[int] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., partitions: _Optional[_Iterable[_Union[PartitionRows, _Mapping]]] = ..., crc32c: _Optional[int] = ..., event: _Optional[_Union[Event, str]] = ..., event_value: _Optional[int] = ..., total_rows: _Optional[int] = ..., total_bytes: _Optional[int] = ...) -> None: ...

class Ticket(_message.Message):
    __slots__ = ("version", "expires_s", "partition", "dataset")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_S_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    version: int
    expires_s: float
    partition: PartitionTicket
    dataset: DatasetTicket
    def __init__(self, version: _Optional[int] = ..., expires_s: _Optional[float] = ..., partition: _Optional[_Union[PartitionTicket, _Mapping]] = ..., dataset: _Optional[_Union[DatasetTicket, _Mapping]] = ...) -> None: ...

class ProducerAttempt(_message.Message):
    __slots__ = ("task", "attempt")
    TASK_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    task: int
    attempt: int
    def __init__(self, task: _Optional[int] = ..., attempt: _Optional[int] = ...) -> None: ...

class PartitionTicket(_message.Message):
    __slots__ = ("job_id", "edge", "node_path", "partition", "producers", "tap")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    NODE_PATH_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRODUCERS_FIELD_NUMBER: _ClassVar[int]
    TAP_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    edge: int
    node_path: str
    partition: int
    producers: _containers.RepeatedCompositeFieldContainer[ProducerAttempt]
    tap: Tap
    def __init__(self, job_id: _Optional[str] = ..., edge: _Optional[int] = ..., node_path: _Optional[str] = ..., partition: _Optional[int] = ..., producers: _Optional[_Iterable[_Union[ProducerAttempt, _Mapping]]] = ..., tap: _Optional[_Union[Tap, str]] = ...) -> None: ...

class DatasetTicket(_message.Message):
    __slots__ = ("name", "version", "partition", "parts")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    partition: int
    parts: _containers.RepeatedCompositeFieldContainer[DatasetPart]
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., partition: _Optional[int] = ..., parts: _Optional[_Iterable[_Union[DatasetPart, _Mapping]]] = ...) -> None: ...

class DatasetPart(_message.Message):
    __slots__ = ("transaction", "writer", "attempt")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    transaction: str
    writer: str
    attempt: int
    def __init__(self, transaction: _Optional[str] = ..., writer: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class Credit(_message.Message):
    __slots__ = ("version", "grants", "closed", "silent")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    version: int
    grants: _containers.RepeatedCompositeFieldContainer[PartitionCredit]
    closed: _containers.RepeatedCompositeFieldContainer[PartitionCredit]
    silent: _containers.RepeatedCompositeFieldContainer[SilentPartition]
    def __init__(self, version: _Optional[int] = ..., grants: _Optional[_Iterable[_Union[PartitionCredit, _Mapping]]] = ..., closed: _Optional[_Iterable[_Union[PartitionCredit, _Mapping]]] = ..., silent: _Optional[_Iterable[_Union[SilentPartition, _Mapping]]] = ...) -> None: ...

class SilentPartition(_message.Message):
    __slots__ = ("partition", "until_us")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    partition: int
    until_us: int
    def __init__(self, partition: _Optional[int] = ..., until_us: _Optional[int] = ...) -> None: ...

class PartitionCredit(_message.Message):
    __slots__ = ("partition", "bytes")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    partition: int
    bytes: int
    def __init__(self, partition: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class ExchangeEnd(_message.Message):
    __slots__ = ("version", "error")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    version: int
    error: bytes
    def __init__(self, version: _Optional[int] = ..., error: _Optional[bytes] = ...) -> None: ...
