from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, final

import pyarrow as pa
from typing_extensions import disjoint_base

from fabric._cython.shuffle.store.budget import Budget

PER_ADDRESS_MAX: int

@disjoint_base
class Connections:
    def __new__(
        cls,
        tls_roots: bytes | None = None,
        tls_identity: tuple[bytes, bytes] | None = None,
        *,
        connect_s: float = 20.0,
        budget: Budget | None = None,
        peer_bytes: int | None = None,
        peer_requests: int | None = None,
    ) -> Self: ...
    @property
    def n_calls(self) -> int: ...
    def in_flight(self, address: str) -> tuple[int, int]: ...
    def shorten(self, paths: Mapping[str, str], *, only: bool = False) -> dict[str, str]: ...
    def lend(self, address: str) -> Lease: ...
    def fetch(
        self,
        address: str,
        ticket: bytes,
        *,
        token: str = "",
        idle_s: float = 30.0,
        events: bool = False,
        gathers: bool = False,
        job: str,
        edge: int,
        producers: Iterable[tuple[int, int]],
        partition: int | None = None,
        node: str = "",
        tasks: str = "",
        subject: str = "",
    ) -> Fetch: ...
    def read(
        self, address: str, ticket: bytes, *, token: str = "", idle_s: float = 30.0
    ) -> Fetch: ...
    def put(
        self,
        address: str,
        path: Iterable[str],
        schema: pa.Schema,
        *,
        token: str = "",
        idle_s: float = 30.0,
        job: str | None = None,
        attempt: int = 0,
    ) -> Put: ...
    def act(
        self,
        address: str,
        name: str,
        body: bytes = b"",
        *,
        token: str = "",
        timeout_s: float = 30.0,
    ) -> list[bytes]: ...
    def close(self) -> None: ...

@final
class Lease:
    def __enter__(self) -> int: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

@final
class Fetch:
    @property
    def tries(self) -> int: ...
    def take(self, max: int = 256) -> list[pa.RecordBatch]: ...
    def take_messages(self, max: int = 256) -> list[tuple[bytes, pa.RecordBatch | None]]: ...
    def close(self) -> None: ...

@final
class Put:
    @property
    def rows(self) -> int: ...
    def write(self, batch: pa.RecordBatch, partition: int = 0) -> None: ...
    def seal(self) -> bytes: ...
    def abandon(self) -> None: ...
