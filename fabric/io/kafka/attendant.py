"""Metadata requests that a Kafka reader makes while it reads, in a separate thread.

One job: `Attendant`, which discovers new partitions periodically, detects that a topic was
recreated or deleted, requests the offsets of a partition, and checks whether brokers still reject
the client, so that the reading thread never waits for a broker. Answers stay in a queue until the
reader takes them.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from fabric.errors import AuthError, CancelledError, FabricError, UserError
from fabric.io.kafka.metadata import MetadataRequests
from fabric.io.kafka.refusals import ASK_AGAIN_S, Admission
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.splits import Place, found_places
from fabric.plan.sources import KafkaStream
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from fabric.io.kafka.library import Reader

_log = logger("fabric.kafka")
AGAIN_S = 1.0
"""The delay after the first failed request; doubled after each further failure."""
AGAIN_S_MAX = 30.0
_STEP_S = 0.2
GONE_S = 2.0
"""A missing topic is looked up once more after this delay: restarting brokers list few topics."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The existing partitions, and the ids of their topics if the brokers report them."""

    places: tuple[Place, ...]
    ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The log start offset and the end offset of a partition."""

    place: Place
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Lost:
    """An error that a retry cannot fix."""

    error: FabricError


@dataclass(frozen=True, slots=True)
class Refused:
    """A question: do the brokers still reject the client, or its access to these topics?"""

    topics: tuple[str, ...] = ()


Answer = Seen | Bounds | Lost


class Attendant:
    """Requests metadata at once, then every `source.discover_s`; calls `wake` for each answer."""

    def __init__(self, source: KafkaStream, reader: Reader, wake: Callable[[], None]) -> None:
        self._source, self._wake = source, wake
        self._asking = MetadataRequests(source, reader, self._go_on)
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._questions: SimpleQueue[Place | Refused | float] = SimpleQueue()
        """Partitions whose bounds are requested; a number: list the topics within that time."""
        self._admission, self._ask_s = Admission(source), math.inf
        self._refused_topics: set[str] = set()
        self._look_s, self._bounds = time.monotonic(), set[Place]()
        self._over = threading.Event()
        self._admin: AdminClient | None = None
        self._n_failed = 0
        self._missed = False
        self._thread = threading.Thread(target=self._work, name="kafka-attendant", daemon=True)
        self._thread.start()

    def look(self, within_s: float = 0.0) -> None:
        """Request the topics, within `within_s` at the latest."""
        self._questions.put(within_s)

    def ask_bounds(self, place: Place) -> None:
        """Request the offsets of a partition."""
        self._questions.put(place)

    def find_out(self, topic: str = "") -> None:
        """Check a rejection, of the client or for a topic; `Lost` is the answer if it lasts."""
        self._questions.put(Refused((topic,) if topic else ()))

    def take(self) -> list[Answer]:
        """The answers since the last call."""
        found: list[Answer] = []
        while not self._answers.empty():
            found.append(self._answers.get_nowait())
        return found

    def close(self) -> None:
        """Stop the thread; waits about a second for the request in progress."""
        self._over.set()
        self._questions.put(0.0)
        self._thread.join()

    # ---- its thread

    def _go_on(self) -> None:
        if self._over.is_set():
            raise CancelledError("the reader was closed")

    def _work(self) -> None:
        try:
            self._attend()
        finally:  # its threads and connections would stay until a garbage collection
            self._admin = None

    def _attend(self) -> None:
        while not self._over.is_set():
            self._hear()
            now_s = time.monotonic()
            if self._over.is_set():
                return
            if self._ask_s <= now_s:
                self._ask_s = time.monotonic() + self._asked_whether_in()
            elif self._look_s <= now_s:  # before bounds, which are requested again and again
                self._look_s = time.monotonic() + self._looked()
            elif self._bounds:
                self._tell_bounds(self._bounds.pop())

    def _hear(self) -> None:
        """Take all pending questions; wait for one if nothing is due."""
        now_s = time.monotonic()
        due_s = now_s if self._bounds else min(self._look_s, self._ask_s)
        with suppress(Empty):
            question = self._questions.get(timeout=max(0.0, due_s - now_s))
            while True:
                match question:
                    case float():
                        self._look_s = min(self._look_s, time.monotonic() + question)
                    case Refused(topics=topics):
                        self._doubt(topics)
                    case _:
                        self._bounds.add(question)
                question = self._questions.get_nowait()

    def _doubt(self, topics: Iterable[str] = ()) -> None:
        """Ask whether brokers accept the client, repeatedly until they do."""
        self._refused_topics |= set(topics)
        self._ask_s = min(self._ask_s, time.monotonic())

    def _asked_whether_in(self) -> float:
        """Ask once; returns the seconds until the next time."""
        try:
            if not self._admission.ask(self._refused_topics, self._go_on):
                return ASK_AGAIN_S
        except CancelledError:
            return 0.0
        except FabricError as error:
            self._tell(Lost(error))
        self._refused_topics.clear()
        self._admission.settle()
        return math.inf

    def _looked(self) -> float:
        """Request the topics; returns the seconds until the next request."""
        if self._admission.is_refused:
            return ASK_AGAIN_S
        try:
            places = found_places(self._source, self._asking.partitions())
            self._tell(Seen(tuple(places), self._topic_ids({topic for topic, _ in places})))
        except CancelledError:
            return 0.0
        except AuthError:
            self._doubt(self._source.topics)
            return ASK_AGAIN_S
        except UserError as error:
            if self._missed:
                self._tell(Lost(error))
                return AGAIN_S_MAX
            self._missed = True
            return GONE_S
        except FabricError as error:
            self._doubt()
            return self._failed(error)
        self._missed, self._n_failed = False, 0
        return self._source.discover_s

    def _tell_bounds(self, place: Place) -> None:
        try:
            self._tell(Bounds(place, *self._asking.bounds(place)))
        except CancelledError:
            return
        except AuthError:
            self._doubt([place[0]])
            self._over.wait(ASK_AGAIN_S)
            self._bounds.add(place)
        except UserError as error:
            self._tell(Lost(error))
        except FabricError as error:
            self._over.wait(self._failed(error))
            self._bounds.add(place)

    def _failed(self, error: FabricError) -> float:
        self._n_failed += 1
        wait_s = min(AGAIN_S_MAX, AGAIN_S * 2.0 ** (self._n_failed - 1))
        _log.warning("a metadata request to Kafka failed, retrying", servers=self._source.servers,
                     why=error.message, attempt=self._n_failed)  # fmt: skip
        return wait_s * random.uniform(0.5, 1.0)  # so that the tasks of a job do not ask at once

    def _tell(self, answer: Answer) -> None:
        self._answers.put(answer)
        self._wake()

    def _topic_ids(self, topics: set[str]) -> dict[str, str]:
        """The ids that brokers assigned to topics at creation; empty if they do not report them."""
        from confluent_kafka import KafkaException, TopicCollection
        from confluent_kafka.admin import AdminClient

        if not topics:
            return {}
        if self._admin is None:  # a separate client: Python's consumer has no such request
            self._admin = AdminClient({**configuration(self._source), "log_level": 0})
        asked = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=10)
        found: dict[str, str] = {}
        for topic, answer in asked.items():
            while not answer.done():
                self._go_on()
                wait([answer], _STEP_S)
            try:
                topic_id = answer.result().topic_id
            except KafkaException:  # an old broker, or no permission
                continue
            if topic_id is not None:
                found[topic] = str(topic_id)
        return found
