"""Idempotency keys: each belongs to who used it.

One job: bound a client's key, and tell it from the same text used by somebody else. A dataset's
transaction keeps key and subject apart (`datasets.py`); a job's key is made one here.
"""

from __future__ import annotations

import hashlib

from fabric.errors import ConfigError
from fabric.security.callers import current

KEY_CHARS_MAX = 256


def own_key(key: str) -> str:
    """`key` as it is whose call this is alone; an empty one stays so."""
    check_key(key)
    caller = current()
    if not key or caller is None:
        return key
    owner = hashlib.sha256(caller.claims.key_owner.encode()).hexdigest()[:16]
    return f"{key}@{owner}"


def check_key(key: str) -> None:
    """Refuse a key that is too long to be kept."""
    if len(key) > KEY_CHARS_MAX:
        raise ConfigError(
            f"an idempotency key has at most {KEY_CHARS_MAX} characters, got {len(key)}"
        )
