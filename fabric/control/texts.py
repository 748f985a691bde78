"""How long the texts of a client's call may be.

One job: `check_texts`. A coordinator writes many of them down and keeps them for weeks, so none is
as long as a message may be. Bytes (a plan, a schema) have limits of their own;
so have keys (`coordinator/submit/idempotency.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from fabric.errors import ConfigError

ID_CHARS_MAX = 256
TEXT_CHARS_MAX = 4_096
_IDS = ("transaction", "writer", "job_id", "agent_id")


def check_texts(message: Message) -> None:
    """Raise `ConfigError` for a text in `message`, or in one inside it, that is too long.

    >>> from fabric.control.control_pb2 import JobRequest
    >>> check_texts(JobRequest(job_id="j" * 300))
    Traceback (most recent call last):
    fabric.errors.ConfigError: job_id has at most 256 characters, got 300
    >>> from fabric.control.control_pb2 import StreamName
    >>> check_texts(StreamName(renames={"a": "b" * 5_000}))
    Traceback (most recent call last):
    fabric.errors.ConfigError: renames has at most 4096 characters, got 5000
    """
    for field, value in message.ListFields():
        for part in _values(field, value):
            if isinstance(part, Message):
                check_texts(part)
            elif isinstance(part, str):
                most = ID_CHARS_MAX if field.name in _IDS else TEXT_CHARS_MAX
                if len(part) > most:
                    raise ConfigError(
                        f"{field.name} has at most {most} characters, got {len(part)}"
                    )


def _values(field: FieldDescriptor, value: Any) -> Iterable[Any]:
    """All values of a field, and the keys of a map."""
    if not field.is_repeated:
        return (value,)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return (*value, *value.values())
    return cast("Iterable[Any]", value)
