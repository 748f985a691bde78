"""Who hears from a coordinator: agents by their links, watchers of jobs by call-backs.

`AgentLink` is the link of one session, `AgentLinks` has the newest of each agent. Messages pass
failpoints on their way. `Watchers` has the call-backs that are called when a job changes. Any
thread may add and remove them; no call-back runs under a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from fabric import failpoints
from fabric.control import control_pb2 as pb
from fabric.control.link import OnMessage

OnDisconnect = Callable[[str], None]
"""Told why the coordinator gives a link up."""


@dataclass(frozen=True, slots=True)
class AgentLink:
    """The link of one session."""

    session: int
    send: OnMessage
    disconnect: OnDisconnect


class AgentLinks:
    """The newest link of each agent; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[str, AgentLink] = {}

    def put(self, agent_id: str, link: AgentLink) -> AgentLink | None:
        """Have a link take the place of an agent's older one, which is returned."""
        with self._lock:
            old, self._links[agent_id] = self._links.get(agent_id), link
        return old

    def session(self, agent_id: str) -> int:
        """The number of an agent's newest session; -1: it has none."""
        with self._lock:
            link = self._links.get(agent_id)
        return link.session if link is not None else -1

    def get(self, agent_id: str, session: int) -> AgentLink | None:
        """The link of a session, if it is the agent's newest."""
        with self._lock:
            link = self._links.get(agent_id)
        return link if link is not None and link.session == session else None

    def take(self, agent_id: str, session: int) -> AgentLink | None:
        """Forget the link of a session, if it is the agent's newest, and return it."""
        with self._lock:
            link = self._links.get(agent_id)
            return self._links.pop(agent_id) if link and link.session == session else None

    def all(self) -> list[AgentLink]:
        """Every link."""
        with self._lock:
            return list(self._links.values())

    def send(self, agent_id: str, session: int, message: pb.CoordinatorMessage) -> Exception | None:
        """Send on the link of a session, if it is there; why that failed."""
        if (link := self.get(agent_id, session)) is None:
            return None
        reach_sending(message)
        try:
            link.send(message)
        except Exception as error:  # a link's fault must not stop the others
            return error
        return None


def forget(reason: str) -> None:
    """The `disconnect` of a link that has none."""


def reach_sending(message: pb.CoordinatorMessage) -> None:
    """The failpoint of what is about to be sent, if it has one."""
    match message.WhichOneof("kind"):
        case "deploy":
            failpoints.reach("coordinator.sending")
        case "trigger":
            failpoints.reach("checkpoint.begun")
        case "ended" if message.ended.complete:
            failpoints.reach("checkpoint.complete")
        case "sink" if message.sink.publish.checkpoint:
            failpoints.reach("checkpoint.publishing")


def reach_received(message: pb.AgentMessage) -> None:
    """The failpoint of what has come, if it has one."""
    sink = message.sink
    if sink.published.checkpoint or sink.taken_back.checkpoint:
        failpoints.reach("checkpoint.published")


Notify = Callable[[], None]


class Watchers:
    """Call-backs of all jobs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_job: dict[str, list[Notify]] = {}

    def add(self, job_id: str, notify: Notify) -> Notify:
        """Call `notify` (which must not block) after each change; returns what ends that."""
        with self._lock:
            self._by_job.setdefault(job_id, []).append(notify)
        return lambda: self._remove(job_id, notify)

    def notify(self, job_id: str) -> None:
        """A job has changed."""
        with self._lock:
            found = list(self._by_job.get(job_id, ()))
        for notify in found:
            notify()

    def notify_all(self) -> None:
        """Nobody will hear of any job any more."""
        with self._lock:
            found = [notify for each in self._by_job.values() for notify in each]
        for notify in found:
            notify()

    def _remove(self, job_id: str, notify: Notify) -> None:
        with self._lock:
            left = [other for other in self._by_job.get(job_id, []) if other is not notify]
            if left:
                self._by_job[job_id] = left
            else:
                self._by_job.pop(job_id, None)
