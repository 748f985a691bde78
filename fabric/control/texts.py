"""How long the texts of a client's call may be.

One job: `check_texts`. A coordinator writes many of them down and keeps them for weeks, so none is
as long as a message may be. Bytes (a plan, a schema) have limits of their own;
so have keys (`coordinator/submit/idempotency.py`).
"""

from __future__ import annotations

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
    """
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            most = ID_CHARS_MAX if field.name in _IDS else TEXT_CHARS_MAX
            for text in (value,) if isinstance(value, str) else value:
                if len(text) > most:
                    raise ConfigError(
                        f"{field.name} has at most {most} characters, got {len(text)}"
                    )
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in (value,) if isinstance(value, Message) else value:
                check_texts(part)
