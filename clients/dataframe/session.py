"""The sessions that frames run on, as frames know them, and which one a frame without any takes.

One job: `Session`, what a frame asks of a session, and the open ones of this process. The kinds of
sessions plug in: each calls `opened` when it is there, and what starts one is known by its name
alone, so nothing here imports them. What is still open when the interpreter ends is closed then.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Protocol, cast

from fabric.clients.job.host import JobHost
from fabric.errors import PlanError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from fabric.clients.dataframe.durations import Length
    from fabric.clients.job.job import Job
    from fabric.clients.job.stream_name import Parallelism, StreamName
    from fabric.control import control_pb2 as pb
    from fabric.io.sinks.live import Feed
    from fabric.plan.nodes import Plan, Scan
    from fabric.plan.targets import StreamTarget

_STARTS_ONE = "fabric.clients.session.connect:connect"
"""What opens a session when there is none; it is imported then, which takes a while."""
_OTHER_ENGINES = {"spark": "fabric.clients.spark.plan.session"}
"""Modules that run a whole plan elsewhere, each with the functions of `PlanEngine`."""


class Session(JobHost, Protocol):
    """What a frame asks of the session it runs on."""

    def submit(
        self,
        plan: Plan,
        name: str = "",
        *,
        parallelism: Parallelism | None = None,
        latency: Length | None = None,
        stream: StreamName | None = None,
    ) -> Job:
        """Check, plan and start; returns while it runs."""

    def explain(self, plan: Plan, *, stream: StreamName | None = None) -> pb.ExplainReply:
        """What the coordinator would do with a plan; starts nothing."""

    def cached(self, plan: Plan) -> Scan:
        """Run `plan` and keep its rows where they are read fast: a scan of them."""

    def live(self, feed: Feed) -> AbstractContextManager[StreamTarget]:
        """Where a job writes rows that `feed` is to have."""

    def dataset_schema(self, name: str) -> pa.Schema:
        """Columns of a dataset."""

    def leaving(self) -> None:
        """The program is about to end."""

    def close(self) -> None:
        """Stop what this session started; may be called again."""


class PlanEngine(Protocol):
    """What runs plans without a coordinator."""

    def collect(self, plan: Plan, session: Session | None = None) -> pa.Table:
        """All rows of `plan`."""

    def explain(self, plan: Plan, session: Session | None = None) -> str:
        """The plan as it would run there; nothing runs."""


_lock = threading.RLock()
_open: list[Session] = []


def default_session() -> Session:
    """The newest open session; an embedded one is started when there is none."""
    with _lock:
        if _open:
            return _open[-1]
        opened_now: Session = resolve_name(_STARTS_ONE)()
        return opened_now


def opened(session: Session) -> None:
    """`session` is the newest now."""
    with _lock:
        if not _open:
            atexit.register(_leave)
        _open.append(session)


def closed(session: Session) -> None:
    """`session` is open no more."""
    with _lock:
        if session in _open:
            _open.remove(session)


def open_sessions() -> list[Session]:
    """The open sessions of this process, the newest last."""
    return list(_open)


def common_session(given: Iterable[Session | None]) -> Session | None:
    """The one session frames were given, None when they have none; two different are refused."""
    named = {id(one): one for one in given if one is not None}
    if len(named) > 1:
        raise PlanError(
            f"these frames belong to different sessions: {', '.join(map(repr, named.values()))}; "
            "write one side with write_dataset and read it in the other session"
        )
    return next(iter(named.values()), None)


def plan_engine(name: str) -> PlanEngine:
    """The engine of that name, imported now; `"spark"` is the one there is."""
    return cast("PlanEngine", resolve_name(_OTHER_ENGINES[name]))


def close_all() -> None:
    """Close every session of this process."""
    while True:
        with _lock:
            if not _open:
                return
            session = _open[-1]
        session.close()


def _leave() -> None:
    """The program ends, and who started work and did not wait for it should know."""
    with _lock:
        sessions = list(_open)
    for session in sessions:
        session.leaving()
    close_all()
