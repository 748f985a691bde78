"""Structured logs: where Fabric's modules say what a person who runs it should know.

One job: `logger`, and `configure_logs` for a process of ours: one line an event, to stderr, as
key=value on a terminal and JSON elsewhere. Inside somebody else's program only warnings are said,
as plain lines; structlog's own configuration, which is theirs, is neither used nor changed. Values
under names that hold secrets are masked, control characters in values are escaped, so nobody can
forge a line through a job's name, and tracebacks never show the values of variables.

The newest events of each job are kept in memory (`Recorder`): agents answer Flight's action
``job.logs`` from it, for clients reach agents by Flight anyway. They are kept as text, a quarter of
what a dict takes: a stream logs something with every checkpoint.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from typing import Any, TextIO

import structlog
from structlog.typing import FilteringBoundLogger, Processor

SECRET_WORDS = ("token", "secret", "password", "authorization", "credential")


def mask_secrets(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace values whose name says that they are secret.

    Examples
    --------
    >>> mask_secrets(None, "info", {"event": "hello", "submit_token": "abc", "port": 1})
    {'event': 'hello', 'submit_token': '***', 'port': 1}
    """
    for name in event:
        if any(word in name.lower() for word in SECRET_WORDS):
            event[name] = "***"
    return event


def escape_lines(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Keep one event on one line, whatever the values hold.

    Examples
    --------
    >>> escape_lines(None, "info", {"event": "job", "name": "a\\nlevel=info forged"})
    {'event': 'job', 'name': 'a\\\\nlevel=info forged'}
    """
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = value.encode("unicode_escape").decode("ascii")
    return event


def _plain(*, colors: bool) -> list[Processor]:
    """Lines for people; structlog would print the values of all variables with a traceback."""
    plain = structlog.dev.plain_traceback
    return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]


LINES_MAX, JOBS_MAX, CHARS_MAX = 200, 100, 4096


class Recorder:
    """Keeps the newest `LINES_MAX` events of the newest `JOBS_MAX` jobs; any thread may call.

    >>> recorder = Recorder()
    >>> recorder.add({"event": "task ended", "job": "job-1", "rows": 3})
    >>> recorder.lines("job-1"), recorder.lines("job-2")
    ([{'event': 'task ended', 'job': 'job-1', 'rows': 3}], [])
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, deque[str]] = OrderedDict()

    def add(self, event: Mapping[str, Any]) -> None:
        """Keep `event` if it names a job."""
        job = event.get("job")
        if not isinstance(job, str) or not job:
            return
        kept = {name: _kept(value) for name, value in event.items() if name != "exc_info"}
        line = json.dumps(kept)
        with self._lock:
            lines = self._jobs.setdefault(job, deque(maxlen=LINES_MAX))
            self._jobs.move_to_end(job)
            lines.append(line)
            while len(self._jobs) > JOBS_MAX:
                self._jobs.popitem(last=False)

    def lines(self, job: str) -> list[dict[str, Any]]:
        """What is kept of a job, oldest first."""
        with self._lock:
            found = list(self._jobs.get(job, ()))
        return [json.loads(line) for line in found]


def _kept(value: object) -> object:
    """What JSON has a word for; texts are cut."""
    if isinstance(value, bool | int | float):
        return value
    return str(value)[:CHARS_MAX]


class _Output:
    """Where this process's events go, from which level on, and how they look."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self.level = "warning"
        self.renderers = _plain(colors=False)
        self.recorder = Recorder()
        self.bound: Mapping[str, str] = {}

    def msg(self, line: str) -> None:
        """Print one rendered event; what is called whatever the level.

        Text and end of line in one piece, or another thread's event comes between them.
        """
        stream = self.stream or sys.stderr
        # a full disk, a closed stream or none at all must not break the work
        with suppress(OSError, ValueError, AttributeError):
            stream.write(line + "\n")
            stream.flush()

    debug = info = warning = error = critical = exception = msg

    def render(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        """The last processor; unlike a list of them it can change after `logger` was called."""
        for name, value in self.bound.items():
            event.setdefault(name, value)
        self.recorder.add(event)
        if _LEVELS[event["level"]] < _LEVELS[self.level]:
            raise structlog.DropEvent
        rendered: Any = event
        for render in self.renderers:
            rendered = render(logger, method, rendered)
        return rendered


_LEVELS: Mapping[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_OUTPUT = _Output()


def bind_process(**fields: str) -> None:
    """Say `fields` in every event of this process that says nothing else of them."""
    _OUTPUT.bound = fields


def lines_of(job: str) -> list[dict[str, Any]]:
    """What this process logged about a job lately, oldest first; also what it did not print."""
    return _OUTPUT.recorder.lines(job)


def logger(name: str) -> FilteringBoundLogger:
    """The logger of a module of ours; `name` is in each of its events.

    Examples
    --------
    >>> logger("fabric.example").info("nobody hears this before configure_logs")
    """
    wrapped: FilteringBoundLogger = structlog.wrap_logger(
        _OUTPUT,
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            mask_secrets,
            escape_lines,
            _OUTPUT.render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),
        context_class=dict,
        cache_logger_on_first_use=False,
    ).bind(logger=name)
    return wrapped


def configure_logs(stream: TextIO | None = None) -> None:
    """Say everything, to `stream`; called once by a process entry, never by library code."""
    out = stream if stream is not None else sys.stderr
    as_json: list[Processor] = [
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(),
    ]
    _OUTPUT.stream, _OUTPUT.level = out, "info"
    _OUTPUT.renderers = _plain(colors=True) if out.isatty() else as_json
