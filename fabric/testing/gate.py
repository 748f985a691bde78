"""A sink that holds its job open until a test says so, also across processes.

One job: `Gate`. A gate is a file that is not there while the gate is shut; the sink of
`fabric.io.sinks.gate` waits for it.
"""

from __future__ import annotations

import atexit
from types import TracebackType

from fabric.ids import new_id
from fabric.io.sinks.gate import gate_file
from fabric.plan.targets import GateTarget


class Gate:
    """Shut at first. Leaving the ``with`` block opens it, so that no job waits for ever.

    Its file is removed when the process ends.

    Examples
    --------
    >>> with Gate() as gate:
    ...     before = gate.opened
    ...     gate.open()
    ...     (before, gate.opened)
    (False, True)
    """

    def __init__(self) -> None:
        self.name = new_id("gate")
        self._file = gate_file(self.name)

    @property
    def target(self) -> GateTarget:
        """The target of a plan's sink: ``Plan(Sink(df.plan.root, gate.target))``.

        >>> with Gate() as gate:
        ...     gate.target.name == gate.name
        True
        """
        return GateTarget(self.name)

    @property
    def opened(self) -> bool:
        """Whether jobs may pass.

        >>> with Gate() as gate:
        ...     gate.opened
        False
        """
        return self._file.exists()

    def open(self) -> None:
        """Let every waiting and coming task pass; may be called again.

        >>> with Gate() as gate:
        ...     gate.open()
        ...     gate.opened
        True
        """
        if not self.opened:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.touch()
            atexit.register(self._file.unlink, missing_ok=True)

    def __enter__(self) -> Gate:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.open()
