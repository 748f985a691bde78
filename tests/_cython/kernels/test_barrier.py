"""BarrierTracker beside sets in Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.barrier import BarrierTracker

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "register", "end", "abort", "coordinate"]),
        st.integers(1, 6),
        st.integers(0, 3),
    ),
    max_size=60,
)


def say(
    missing: dict[int, set[int]], ended: set[int], what: str, checkpoint: int, channel: int
) -> int | None:
    """One step of the model; what the tracker should return."""
    if what == "register":
        missing.get(checkpoint, set()).discard(channel)
        return len(missing[checkpoint]) if checkpoint in missing else -1
    if what == "end":
        ended.add(channel)
        for waited in missing.values():
            waited.discard(channel)
        return None
    if what == "abort":
        return missing.pop(checkpoint, None) is not None
    complete = max((c for c, waited in missing.items() if not waited), default=0)
    for old in [c for c in missing if c <= complete]:
        del missing[old]
    return complete


@given(st.integers(1, 4), STEPS)
def test_beside_sets(n: int, steps: list[tuple[str, int, int]]) -> None:
    tracker, ended = BarrierTracker(n), set[int]()
    missing: dict[int, set[int]] = {}
    newest = 0
    for what, checkpoint, channel in steps:
        if what in ("register", "end") and channel >= n:
            with pytest.raises(IndexError, match=f"no channel {channel} of {n}"):
                tracker.end(channel)
        elif what == "create" and checkpoint <= newest:
            with pytest.raises(ValueError, match=f"is not newer than {newest}"):
                tracker.create(checkpoint)
        elif what == "create":
            newest = checkpoint
            missing[checkpoint] = set(range(n)) - ended
            assert tracker.create(checkpoint) == len(missing[checkpoint])
        else:
            arguments = {
                "register": (checkpoint, channel), "end": (channel,), "abort": (checkpoint,),
                "coordinate": (),
            }[what]  # fmt: skip
            found = getattr(tracker, what)(*arguments)
            assert found == say(missing, ended, what, checkpoint, channel)
        assert tracker.in_flight() == sorted(missing)
        assert tracker.missing(checkpoint).tolist() == sorted(missing.get(checkpoint, set()))
        assert (tracker.newest, tracker.n_channels) == (newest, n)


def test_a_task_without_inputs_is_complete_at_once() -> None:
    tracker = BarrierTracker(0)
    assert (tracker.create(3), tracker.coordinate(), tracker.coordinate()) == (0, 3, 0)


def test_fewer_than_no_channels_are_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative, got -2"):
        BarrierTracker(-2)
