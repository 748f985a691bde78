from __future__ import annotations

import pytest

from fabric.testing.clock import ManualClock


def test_a_clock_moves_only_by_hand() -> None:
    clock = ManualClock()
    clock.advance(1.5)
    clock.jump_wall(-3600)
    assert clock.monotonic_s() == 1.5
    assert clock.wall_s() == 1_700_000_001.5 - 3600
    with pytest.raises(ValueError, match="can't go back, got -1"):
        clock.advance(-1)
