"""Structured logs of agent and coordinator processes.

One job: configure structlog once per process: one line an event, key=value on a terminal and JSON
elsewhere, to stderr. Values under names that hold secrets are masked, and control characters in
values are escaped by the renderers, so nobody can forge a line through a job's name.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

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


def configure_logs(stream: TextIO | None = None) -> None:
    """Set up this process's logs; called once by a process entry, never by library code."""
    out = stream if stream is not None else sys.stderr
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=True)
        if out.isatty()
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if out.isatty() else [structlog.processors.format_exc_info]),
            mask_secrets,
            escape_lines,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
