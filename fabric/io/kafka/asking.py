"""Questions to Kafka's brokers that take their time: topics, partitions, offsets.

One job: `Asking`, which waits for an answer, a little longer each time and within bounds, and says
by name why none came. Whoever reads rows never calls it in the thread that reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self, TypeVar

from fabric.errors import ExternalError
from fabric.io.kafka.refusals import refusal
from fabric.io.kafka.settings import configuration
from fabric.plan.sources import KafkaStream
from fabric.wanted import check_wanted

if TYPE_CHECKING:
    from types import TracebackType

    from fabric.io.kafka.library import Reader

Answer = TypeVar("Answer")
ANSWER_S = 10.0
"""How long brokers have, all attempts together."""
_STEP_S = 1.0


class Asking:
    """A client for questions alone, or, given a `reader`, that one's; a context manager.

    What went wrong with a `reader` is for those to hear who read with it. `go_on` is asked before
    each attempt, and raises to end a question.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._reader.close()

    def partitions(self) -> dict[str, int | str]:
        """How many partitions each topic has, or what is wrong with it; those of interest."""
        names = list(self._source.topics) or None
        found = self._answer(lambda s: self._reader.metadata(names, timeout_s=s))
        return {name: topic.error or len(topic.partitions) for name, topic in found.items()}

    def ends(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offset behind the last record that may be read of each."""
        return {place: self.bounds(place)[1] for place in places}

    def bounds(self, place: tuple[str, int]) -> tuple[int, int]:
        """The first offset that is kept, and the one behind the last record."""
        low, high = self._answer(lambda s: self._reader.watermark_offsets(*place, timeout_s=s))
        return low, high

    def at_time(
        self, places: Iterable[tuple[str, int]], time_ms: int
    ) -> dict[tuple[str, int], int]:
        """The first offset of that time or later; negative where there is none."""
        times = dict.fromkeys(places, time_ms)
        found: Mapping[tuple[str, int], int] = self._answer(
            lambda s: self._reader.offsets_for_times(times, timeout_s=s)
        )
        return dict(found)

    def _answer(self, ask: Callable[[float], Answer]) -> Answer:
        """What `ask` answers; it is given how long it may wait."""
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
            f"no broker of {self._source.servers} answered within {self._wait_s:.0f} s ({why}); is "
            "the address right, and can it be reached from the coordinator and the agents?"
        )

    def _faults(self) -> str:
        """The last thing that went wrong, in words; raises what waiting will not mend."""
        why = ""
        for fault in self._reader.errors():
            if error := refusal(fault.name, fault.text, self._source.servers):
                raise error
            why = f"{fault.name}: {fault.text}"
        return why
