from __future__ import annotations

import pytest

from fabric.cancellation import Cancellation
from fabric.errors import CancelledError


def test_it_wakes_whoever_waits_then_and_nobody_else() -> None:
    stop, woken = Cancellation(), []
    with stop.waking(lambda: woken.append("early")):
        stop.check()
    with stop.waking(lambda: woken.append("now")):
        stop.cancel("enough")
        stop.cancel("again")
    with stop.waking(lambda: woken.append("late")):
        assert stop.cancelled
    assert woken == ["now", "late"]
    with pytest.raises(CancelledError, match="enough"):
        stop.check()
    assert (stop.reason, stop.wait(0)) == ("enough", True)
