"""What happened in a run, line by line.

One job: `Trace`, whose `digest` two runs of one seed must share.
"""

from __future__ import annotations

from hashlib import blake2b


class Trace:
    """Lines with their time; all are kept, since runs are short."""

    def __init__(self) -> None:
        self._lines: list[tuple[float, str, str]] = []

    def add(self, now: float, who: str, what: str) -> None:
        """Remember what `who` did or met."""
        self._lines.append((now, who, what))

    def __len__(self) -> int:
        return len(self._lines)

    def tail(self, n_lines: int = 40) -> str:
        """The last lines, as a person reads them."""
        return "\n".join(f"{at:9.4f} {who:>3} {what}" for at, who, what in self._lines[-n_lines:])

    def digest(self) -> str:
        """A short name of the whole run."""
        return blake2b(repr(self._lines).encode(), digest_size=12).hexdigest()
