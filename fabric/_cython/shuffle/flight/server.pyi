from collections.abc import Sequence
from typing import Self, final

from fabric._cython.shuffle.flight.directory import LocationDirectory
from fabric._cython.shuffle.flight.handlers import HandlerSet
from fabric._cython.shuffle.flight.streams import StreamPuts
from fabric.config import Limits
from fabric.flight.handlers import Asked

@final
class NativeServer:
    def __new__(
        cls,
        face: Asked,
        handlers: HandlerSet,
        table: LocationDirectory,
        *,
        agent_id: str,
        location: str,
        ticket_key: bytes,
        ticket_s: float,
        limits: Limits,
        own_clock: bool = False,
        own_options: bool = False,
        tls: tuple[bytes, bytes] | None = None,
        locations: str = "all",
        own_actions: Sequence[str] = (),
        echoed: Sequence[str] = ("x-request-id",),
        streams: StreamPuts | None = None,
    ) -> Self: ...
    def listen(self, path: str) -> None: ...
    @property
    def port(self) -> int: ...
    @property
    def n_open(self) -> int: ...
    @property
    def n_changes(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def refuse_calls(self) -> None: ...
    def set_streams_max(self, most: int) -> None: ...
    def stop(self, grace_s: float) -> bool: ...
