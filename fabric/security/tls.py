"""TLS: certificates and keys as files, what is wrong with them, and where a token may go.

One job: `read_pair`, which checks a server's files at its start; `explain`, which says why a
connection did not come about, by one handshake made only to find that out; `check_clear`, which
refuses to send a token where it could be read on the way.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import stat
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from fabric.config import TLS
from fabric.errors import AuthError, ConfigError, PeerLostError
from fabric.values import is_loopback

REACH_S, PROBE_S = 0.5, 1.0
"""How long it may take to reach a host, and then each step of a handshake, to explain a failure."""
_EXPIRED, _NOT_YET = 10, 9
_HOST, _ADDRESS = 62, 64
_ISSUER = frozenset({2, 18, 19, 20, 21, 27, 33})
"""Codes of OpenSSL (X509_V_ERR_…) for chains that end with nobody who is trusted."""
_TIMES = re.compile(rb"(?:\x17\x0d(\d{12}Z)|\x18\x0f(\d{14}Z))" * 2)
"""notBefore and notAfter in DER: two times, one right behind the other."""


class TlsError(PeerLostError):
    """A connection did not come about for a reason that has to do with TLS."""


# ---- files


def read_pem(path: Path) -> bytes:
    """A certificate or a key; `ConfigError` when the file is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"can't read {path}: {error.strerror}") from error
    if b"-----BEGIN" not in data:
        raise ConfigError(f"{path} holds no certificate or key in PEM format")
    return data


def read_pair(
    certificate: Path, key: Path, wall_s: Callable[[], float] = time.time
) -> tuple[bytes, bytes]:
    """A certificate and its key, checked.

    Raises
    ------
    ConfigError
        When a file can't be read or is not PEM, others may read the key, the two don't belong
        together, or the certificate has expired or is not valid yet.
    """
    check_private(key)
    pair = read_pem(certificate), read_pem(key)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{certificate} and {key} don't belong together: {error.reason or 'unreadable'}"
        ) from error
    begins, ends = validity(pair[0])
    now = datetime.fromtimestamp(wall_s(), UTC)
    if now < begins:
        raise ConfigError(
            f"the certificate {certificate} is not valid before {_shown(begins)}, and it is "
            f"{_shown(now)} here; is the clock right?"
        )
    if now > ends:
        raise ConfigError(
            f"the certificate {certificate} expired at {_shown(ends)}; put a new one there"
        )
    return pair


def check_private(key: Path) -> None:
    """Refuse a key that others may read: one of root's may be read by its group."""
    try:
        status = key.stat()
    except OSError as error:
        raise ConfigError(f"can't read {key}: {error.strerror}") from error
    mode = stat.S_IMODE(status.st_mode)
    is_ours = status.st_uid == os.geteuid()
    allowed = 0o640 if status.st_uid == 0 and not is_ours else 0o600
    if mode & 0o077 & ~allowed:
        raise ConfigError(
            f"the key {key} can be read or written by others than its owner, it has mode "
            f"{mode:04o}; run: chmod 600 {key}"
        )


def validity(pem: bytes) -> tuple[datetime, datetime]:
    """From when to when the first certificate of a PEM file holds."""
    text = pem.decode("ascii", "replace")
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    first = text[text.index(begin) : text.index(end) + len(end)]
    found = _TIMES.search(ssl.PEM_cert_to_DER_cert(first))
    if found is None:
        raise ConfigError("the certificate says no time")
    times = [one.decode() for one in found.groups() if one]
    return _time(times[0]), _time(times[1])


def _time(text: str) -> datetime:
    """A UTCTime (its year has two digits, from 1950) or a GeneralizedTime."""
    if len(text) == 13:
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


# ---- connections


def place_of(address: str) -> tuple[str, int] | None:
    """Host and port of an address; None of a Unix socket, and of what has no port.

    >>> place_of("grpc+tls://[::1]:6123"), place_of("host:6123"), place_of("grpc+unix:///x")
    (('::1', 6123), ('host', 6123), None)
    """
    scheme, _, rest = address.rpartition("://")
    host, _, port = rest.rstrip("/").rpartition(":")
    if "unix" in scheme or address.startswith("unix:") or not port.isdigit() or not host:
        return None
    return host.strip("[]"), int(port)


def explain(address: str, tls_roots: bytes | None = None) -> str:
    """Why nobody answers at `address`, as far as it has to do with TLS; "" when it has not."""
    if (place := place_of(address)) is None:
        return ""
    try:
        with socket.create_connection(place, REACH_S) as connection:
            connection.settimeout(PROBE_S)
            if address.startswith(TLS):
                return _explained(connection, address, place[0], tls_roots)
            return _speaks_tls(connection, address)
    except OSError:
        return ""


def _explained(connection: socket.socket, address: str, host: str, tls_roots: bytes | None) -> str:
    """What becomes of a handshake with `host` when only `tls_roots` are trusted."""
    roots = tls_roots.decode("ascii", "replace") if tls_roots else None
    try:
        context = ssl.create_default_context(cadata=roots)
        context.set_alpn_protocols(["h2"])
        with context.wrap_socket(connection, server_hostname=host) as encrypted:
            if encrypted.recv(1):  # with TLS 1.3 a server refuses its client only now
                return ""
        return _wary(address)
    except ssl.SSLCertVerificationError as error:
        return _distrusted(address, host, error, given=tls_roots is not None)
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
            return _wary(address)
        if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER" in reason or "EOF" in reason:
            return _without(address)
    except (ConnectionResetError, BrokenPipeError):
        return _without(address)
    return ""


def _without(address: str) -> str:
    plain = address.removeprefix(TLS)
    return (
        f"the server at {plain} speaks no TLS; start it with a certificate, or leave TLS out of "
        "the address"
    )


def _wary(address: str) -> str:
    return (
        f"the server at {address} ends connections right behind the handshake; if it asks its "
        "clients for a certificate, give one (tls_cert and tls_key of the Spark connector)"
    )


def _distrusted(
    address: str, host: str, error: ssl.SSLCertVerificationError, *, given: bool
) -> str:
    code, what = error.verify_code, f"the certificate of {address}"
    if code == _EXPIRED:
        return f"{what} has expired; put a new one there"
    if code == _NOT_YET:
        return f"{what} is not valid yet; are the clocks of both sides right?"
    if code in (_HOST, _ADDRESS):
        return (
            f"{what} is not for {host!r}; use a name that the certificate has, or have one made "
            "with this name in it (subjectAltName)"
        )
    if code in _ISSUER:
        roots = "the roots that were given" if given else "the roots that this system trusts"
        return f"{what} was signed by nobody among {roots}; give tls_roots, the file of its issuer"
    return f"{what} is not trusted: {error.verify_message}"


def _speaks_tls(connection: socket.socket, address: str) -> str:
    """What to write for a server that speaks TLS to an address without."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        if "ALERT" not in (error.reason or ""):
            return ""
    plain = address.rpartition("://")[2]
    return (
        f"the server at {plain} speaks TLS and the address does not; write fabric+tls://{plain} "
        f"in connect(), {TLS}{plain} elsewhere"
    )


# ---- tokens


def check_clear(address: str, insecure: bool = False) -> None:
    """Refuse to send a token to `address` where it could be read on the way.

    >>> check_clear("127.0.0.1:6123"), check_clear("grpc+tls://example.org:6123")
    (None, None)
    >>> check_clear("grpc+tcp://example.org:6123")
    Traceback (most recent call last):
    fabric.errors.AuthError: refusing to send a token to example.org in the clear: whoever is on \
the way can read it; use TLS (grpc+tls://example.org:6123), or say insecure=True
    """
    scheme, _, rest = address.rpartition("://")
    if insecure or scheme.endswith("tls") or "unix" in scheme or address.startswith("unix:"):
        return
    host = rest.rpartition(":")[0].strip("[]") or rest
    if is_loopback(host):
        return
    raise AuthError(
        f"refusing to send a token to {host} in the clear: whoever is on the way can read it; use "
        f"TLS ({TLS}{rest}), or say insecure=True"
    )
