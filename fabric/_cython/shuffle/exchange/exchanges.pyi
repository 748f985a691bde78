from collections.abc import Iterable
from typing import Self, final

import pyarrow as pa
from typing_extensions import disjoint_base

from fabric._cython.shuffle.flight.directory import LocationDirectory
from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric._cython.shuffle.pump.pump import Connections
from fabric._cython.shuffle.ring.ring import Pipes

@final
class JobPipes:
    def __new__(cls) -> Self: ...
    def add(self, job: str, pipes: Pipes) -> None: ...
    def begin(self, job: str, edge: int, producer: int, attempt: int) -> None: ...
    def remove(self, job: str) -> None: ...
    def serve(self, handlers: HandlerSet, idle_s: float = 30.0) -> None: ...
    def serve_taps(
        self, handlers: HandlerSet, table: LocationDirectory, idle_s: float = 30.0
    ) -> None: ...

@disjoint_base
class OpenExchange:
    @property
    def rows(self) -> int: ...
    def check(self) -> None: ...
    def close(self) -> None: ...

@final
class Exchange(OpenExchange):
    def __new__(
        cls,
        connections: Connections,
        pipes: Pipes,
        *,
        address: str,
        token: str,
        job: str,
        node: str,
        edge: int,
        n_partitions: int,
        producers: Iterable[tuple[int, int, int]],
        schema: pa.Schema,
        idle_s: float = 30.0,
        window_bytes: int = ...,
        agent: str = "",
        compression: str = "",
    ) -> Self: ...

@final
class InProcessExchange(OpenExchange):
    def __new__(
        cls,
        jobs: JobPipes,
        pipes: Pipes,
        *,
        job: str,
        node: str,
        edge: int,
        n_partitions: int,
        producers: Iterable[tuple[int, int, int]],
        idle_s: float = 30.0,
    ) -> Self: ...
