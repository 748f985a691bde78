"""What a reader of Kafka has to ask while it reads, in a thread of its own.

One job: `Attendant`, which looks for new partitions every so often, finds out whether a topic was
made anew or is gone, and asks what offsets a partition has, so that the thread that reads never
waits for a broker. Answers lie in a queue until the reader takes them.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from fabric.errors import CancelledError, FabricError, UserError
from fabric.io.kafka.asking import Asking
from fabric.io.kafka.settings import configuration
from fabric.io.kafka.splits import Place, found_places
from fabric.plan.sources import KafkaStream
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from fabric.io.kafka.library import Reader

_log = logger("fabric.kafka")
AGAIN_S = 1.0
"""After the first look that failed; each further one is twice as long after the one before."""
AGAIN_S_MAX = 30.0
_STEP_S = 0.2
GONE_S = 2.0
"""A topic that is missing is looked for once more, so long after: brokers that begin know few."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The partitions there are, and the ids of their topics as far as brokers tell."""

    places: tuple[Place, ...]
    ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The first offset of a partition that is kept, and the one behind its last record."""

    place: Place
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Lost:
    """What waiting will not mend."""

    error: FabricError


Answer = Seen | Bounds | Lost


class Attendant:
    """Looks at once, then every `source.discover_s`; `wake` is called with each answer."""

    def __init__(self, source: KafkaStream, reader: Reader, wake: Callable[[], None]) -> None:
        self._source, self._wake = source, wake
        self._asking = Asking(source, reader, self._go_on)
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._questions: SimpleQueue[Place | float] = SimpleQueue()
        """Partitions to tell the bounds of; a number: look at the topics within such a time."""
        self._over = threading.Event()
        self._admin: AdminClient | None = None
        self._n_failed = 0
        self._missed = False
        self._thread = threading.Thread(target=self._work, name="kafka-attendant", daemon=True)
        self._thread.start()

    def look(self, within_s: float = 0.0) -> None:
        """Have the topics looked at, in so long at the latest."""
        self._questions.put(within_s)

    def ask_bounds(self, place: Place) -> None:
        """Have the offsets of a partition told."""
        self._questions.put(place)

    def take(self) -> list[Answer]:
        """What was found out since the last call."""
        found: list[Answer] = []
        while not self._answers.empty():
            found.append(self._answers.get_nowait())
        return found

    def close(self) -> None:
        """End the thread; the attempt that is under way is waited for, about a second."""
        self._over.set()
        self._questions.put(0.0)
        self._thread.join()

    # ---- its thread

    def _go_on(self) -> None:
        if self._over.is_set():
            raise CancelledError("the reader was closed")

    def _work(self) -> None:
        look_s = time.monotonic() + self._looked()
        while not self._over.is_set():
            if (wait_s := look_s - time.monotonic()) <= 0:  # first: questions come again
                look_s = time.monotonic() + self._looked()
                continue
            try:
                question = self._questions.get(timeout=wait_s)
            except Empty:
                continue
            if self._over.is_set():
                return
            if isinstance(question, float):
                look_s = min(look_s, time.monotonic() + question)
            else:
                self._tell_bounds(question)

    def _looked(self) -> float:
        """Look at the topics; returns how long until the next time."""
        try:
            places = found_places(self._source, self._asking.partitions())
            self._tell(Seen(tuple(places), self._topic_ids({topic for topic, _ in places})))
        except CancelledError:
            return 0.0
        except UserError as error:
            if self._missed:
                self._tell(Lost(error))
                return AGAIN_S_MAX
            self._missed = True
            return GONE_S
        except FabricError as error:
            return self._failed(error)
        self._missed, self._n_failed = False, 0
        return self._source.discover_s

    def _tell_bounds(self, place: Place) -> None:
        try:
            self._tell(Bounds(place, *self._asking.bounds(place)))
        except CancelledError:
            return
        except UserError as error:
            self._tell(Lost(error))
        except FabricError as error:
            self._over.wait(self._failed(error))
            if not self._over.is_set():
                self._questions.put(place)

    def _failed(self, error: FabricError) -> float:
        self._n_failed += 1
        wait_s = min(AGAIN_S_MAX, AGAIN_S * 2.0 ** (self._n_failed - 1))
        _log.warning("Kafka does not answer", servers=self._source.servers, why=error.message,
                     attempt=self._n_failed)  # fmt: skip
        return wait_s * random.uniform(0.5, 1.0)  # tasks of a job shall not all ask at once

    def _tell(self, answer: Answer) -> None:
        self._answers.put(answer)
        self._wake()

    def _topic_ids(self, topics: set[str]) -> dict[str, str]:
        """The ids that brokers gave topics when they were made; none where they don't tell."""
        from confluent_kafka import KafkaException, TopicCollection
        from confluent_kafka.admin import AdminClient

        if not topics:
            return {}
        if self._admin is None:  # of its own: a consumer's handle has no such question in Python
            self._admin = AdminClient({**configuration(self._source), "log_level": 0})
        asked = self._admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=10)
        found: dict[str, str] = {}
        for topic, answer in asked.items():
            while not answer.done():
                self._go_on()
                wait([answer], _STEP_S)
            try:
                topic_id = answer.result().topic_id
            except KafkaException:  # an old broker, or no right to ask
                continue
            if topic_id is not None:
                found[topic] = str(topic_id)
        return found
