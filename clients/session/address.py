"""Addresses of fabrics, and the token and the certificates to go there with.

One job: read what the user, the environment and the state folder say; nothing is opened.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from fabric.config import TLS, FabricHome
from fabric.errors import AuthError, ConfigError
from fabric.security.tls import read_pem

DEFAULT_PORT = 6123
SCHEMES = {"fabric": "", "fabric+tls": TLS}


def is_spark(target: str) -> bool:
    """Whether an address is one of Spark's: ``spark``, ``spark://…``, ``local``, ``local[2]``.

    >>> is_spark("local[2]"), is_spark("fabric://host:6123")
    (True, False)
    """
    return bool(re.fullmatch(r"spark|spark://.+|local|local(-cluster)?\[.+\]", target))


def read_roots(path: str | Path | None) -> bytes | None:
    """What is in the file of roots that was given, else in that of FABRIC_TLS_ROOTS."""
    given = path or os.environ.get("FABRIC_TLS_ROOTS")
    return read_pem(Path(given)) if given else None


def parse_address(target: str) -> str:
    """``fabric://host:port`` as ``host:port``; the port is 6123 when left out.

    Of several coordinators that stand for election, all may be named.

    >>> parse_address("fabric://127.0.0.1"), parse_address("fabric+tls://example.org:7000")
    ('127.0.0.1:6123', 'grpc+tls://example.org:7000')
    >>> parse_address("fabric://a,b:7000")
    'a:6123,b:7000'
    """
    scheme, separator, places = target.rpartition("://")
    if scheme in SCHEMES or not separator:
        places = places.removesuffix("/")
        found = [_parse_place(scheme or "fabric", place) for place in places.split(",")]
        if all(found):
            return ",".join(found)
    raise ConfigError(
        f'{target!r} is not a valid fabric address; write connect("fabric://host:{DEFAULT_PORT}")'
    )


def _parse_place(scheme: str, place: str) -> str:
    """One coordinator's address, or "" when it is none."""
    try:
        parts = urlsplit(f"{scheme}://{place}")
        port = parts.port or DEFAULT_PORT
    except ValueError:
        return ""
    if not parts.hostname or parts.path or parts.query or parts.fragment or parts.username:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{SCHEMES[scheme]}{host}:{port}"


def find_token() -> str:
    """The token of FABRIC_TOKEN, else of the state folder."""
    return os.environ.get("FABRIC_TOKEN", "").strip() or token_of(FabricHome())


def token_of(home: FabricHome) -> str:
    """The token in a state folder; `AuthError` says where it was sought."""
    try:
        return home.token.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise AuthError(
            f"no token: FABRIC_TOKEN is not set and {home.token} can't be read; give "
            'connect(..., token="...") or --token FILE, or set FABRIC_HOME to its state folder'
        ) from error
