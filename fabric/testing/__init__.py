"""For tests of programs that are built on Fabric: an operator's harness, a clock, a gate.

One job: the names. Nothing here needs a test framework, an oracle or a process of its own:

- `check_operator` runs an operator straight, through failures and restores, and with other numbers
  of tasks, and refuses any difference. `run_straight`, `run_aborted` and `run_rescaled` are one way
  each. The steps are `Rows`, `Until` (a watermark), `Clock` (the processing time) and `SplitEnd`;
  what comes out is an `Outcome`, and `Kept` is a snapshot in memory.
- `ManualClock` is a `fabric.clock.Clock` that a test moves by hand.
- `Gate` holds a job open at its sink, whatever processes it runs in, until the test says so.
"""

from __future__ import annotations

from fabric.testing.clock import ManualClock
from fabric.testing.gate import Gate
from fabric.testing.operators import (
    Clock,
    Kept,
    Outcome,
    Rows,
    SplitEnd,
    Step,
    Until,
    check_operator,
    run_aborted,
    run_rescaled,
    run_straight,
)

__all__ = [
    "Clock", "Gate", "Kept", "ManualClock", "Outcome", "Rows", "SplitEnd", "Step", "Until",
    "check_operator", "run_aborted", "run_rescaled", "run_straight",
]  # fmt: skip
