"""Blocking metadata requests to Kafka's brokers: topics, partitions, offsets.

One job: `MetadataRequests`, which retries a request until a deadline and reports why no broker
answered. Never called in the thread that reads records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self, TypeVar

from fabric.cancellation import check_wanted
from fabric.errors import ExternalError
from fabric.io.kafka.refusals import refusal
from fabric.io.kafka.settings import configuration
from fabric.plan.sources import KafkaStream

if TYPE_CHECKING:
    from fabric.io.kafka.library import Reader

Answer = TypeVar("Answer")
ANSWER_S = 10.0
"""How long a request may take, all attempts together."""
_STEP_S = 1.0


class MetadataRequests:
    """Requests through a client of its own, or through `reader`; a context manager.

    The errors of a given `reader` are left to the code that reads with it. `go_on` is called before
    each attempt, and raises to cancel a request.
    """

    def __init__(
        self,
        source: KafkaStream,
        reader: Reader | None = None,
        go_on: Callable[[], None] = check_wanted,
    ) -> None:
        from fabric.io.kafka.library import client

        self._source, self._wait_s, self._go_on = source, ANSWER_S, go_on
        self._is_own = reader is None
        self._reader = reader or client().Reader(
            {**configuration(source), "isolation.level": source.isolation}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def partitions(self) -> dict[str, int | str]:
        """The partition count of each topic of the source, or the error code of the topic."""
        names = list(self._source.topics) or None
        found = self._answer(lambda s: self._reader.metadata(names, timeout_s=s))
        return {name: topic.error or len(topic.partitions) for name, topic in found.items()}

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The end offset of each partition: one past the last record that may be read."""
        return {place: self.bounds(place)[1] for place in places}

    def bounds(self, place: tuple[str, int]) -> tuple[int, int]:
        """The log start offset and the end offset of a partition."""
        low, high = self._answer(lambda s: self._reader.watermark_offsets(*place, timeout_s=s))
        return low, high

    def at_time(
        self, places: Iterable[tuple[str, int]], time_ms: int
    ) -> dict[tuple[str, int], int]:
        """The first offset at or after a time; negative if the partition has none."""
        times = dict.fromkeys(places, time_ms)
        found: Mapping[tuple[str, int], int] = self._answer(
            lambda s: self._reader.offsets_for_times(times, timeout_s=s)
        )
        return dict(found)

    def _answer(self, ask: Callable[[float], Answer]) -> Answer:
        """The answer of `ask`, which is given the seconds that it may wait."""
        until_s = time.monotonic() + self._wait_s
        why = "no answer"
        while (rest_s := until_s - time.monotonic()) > 0:
            self._go_on()
            try:
                return ask(min(_STEP_S, rest_s))
            except ExternalError as error:
                if not error.retryable:
                    raise
                why = error.message
            why = (self._is_own and self._faults()) or why
        raise ExternalError(
            f"no broker at {self._source.servers} answered within {self._wait_s:.0f} s ({why}); "
            "check servers= and that the coordinator and the agents can reach these addresses"
        )

    def _faults(self) -> str:
        """The newest error of the client as text; raises an error that a retry cannot fix."""
        why = ""
        for fault in self._reader.errors():
            if error := refusal(fault.name, fault.text, self._source.servers):
                raise error
            why = f"{fault.name}: {fault.text}"
        return why
