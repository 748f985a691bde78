"""Idempotency keys: each belongs to who used it.

One job: bound a client's key, and tell it from the same text used by somebody else. A dataset's
transaction keeps key and subject apart (`datasets.py`); a job's key is made one here.
"""

from __future__ import annotations

import hashlib

from fabric.errors import ConfigError
from fabric.security.tokens import Claims

KEY_CHARS_MAX = 256


def own_key(claims: Claims, key: str) -> str:
    """`key` as it is this caller's alone; an empty one stays so."""
    check_key(key)
    if not key:
        return ""
    owner = hashlib.sha256(claims.key_owner.encode()).hexdigest()[:16]
    return f"{key}@{owner}"


def check_key(key: str) -> None:
    """Refuse a key that is too long to be kept."""
    if len(key) > KEY_CHARS_MAX:
        raise ConfigError(
            f"an idempotency key has at most {KEY_CHARS_MAX} characters, got {len(key)}"
        )
