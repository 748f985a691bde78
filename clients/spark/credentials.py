"""Who the connector is to a fabric: token and TLS, from options, files or the environment.

One job: `Credentials`, read once on the driver and sent along to the workers, so that files need to
lie on the driver's host only. None of it is ever shown: not by `repr`, not in messages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fabric.errors import AuthError, ConfigError
from fabric.security.tls import check_private

NAMES = ("token", "token_file", "tls_ca", "tls_cert", "tls_key", "insecure")
_FILE_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A bearer token, the CA that signed the server's certificate, our own certificate and key."""

    token: str = field(default="", repr=False)
    tls_ca: bytes | None = field(default=None, repr=False)
    tls_identity: tuple[bytes, bytes] | None = field(default=None, repr=False)
    insecure: bool = False
    """Whether the token may go in the clear to other machines."""


def read_credentials(given: Mapping[str, str], url: str) -> Credentials:
    """From the options `given`, else from the variable FABRIC_TOKEN.

    Raises
    ------
    ConfigError
        Options that contradict each other, or TLS options for an address without TLS.
    AuthError
        A file can't be read; names the option and the file, never what is in it.
    """
    if given.get("token") and given.get("token_file"):
        raise ConfigError("the options token and token_file exclude each other; give one")
    if bool(given.get("tls_cert")) != bool(given.get("tls_key")):
        raise ConfigError("the options tls_cert and tls_key belong together; give both or none")
    tls = [name for name in NAMES if name.startswith("tls_") and given.get(name)]
    if tls and not url.startswith(("grpc+tls://", "fabric://", "fabric+tls://")):
        raise ConfigError(
            f"the option {tls[0]} needs an address with TLS (grpc+tls://host:port), got {url!r}"
        )
    return Credentials(
        token=_token(given),
        tls_ca=_file(given, "tls_ca"),
        tls_identity=_identity(given),
        insecure=_insecure(given),
    )


def _insecure(given: Mapping[str, str]) -> bool:
    text = given.get("insecure", "false").lower()
    if text not in ("true", "false"):
        raise ConfigError(f'.option("insecure", ...) must be true or false, got {text!r}')
    return text == "true"


def _token(given: Mapping[str, str]) -> str:
    if given.get("token"):
        return given["token"]
    if (data := _file(given, "token_file")) is None:
        return os.environ.get("FABRIC_TOKEN", "")
    token = data.decode("ascii", "replace").strip()
    if not token:
        raise AuthError(f"the token file {given['token_file']!r} is empty")
    return token


def _identity(given: Mapping[str, str]) -> tuple[bytes, bytes] | None:
    certificate, key = _file(given, "tls_cert"), _file(given, "tls_key")
    if certificate is None or key is None:
        return None
    check_private(Path(given["tls_key"]))
    return certificate, key


def _file(given: Mapping[str, str], name: str) -> bytes | None:
    """What the file that option `name` names holds; None without the option.

    Of roots, which are no secret, the option may also be the text itself.
    """
    if not (path := given.get(name, "")):
        return None
    if name == "tls_ca" and path.startswith("-----BEGIN"):
        return path.encode("ascii", "replace")
    try:
        with open(path, "rb") as file:
            data = file.read(_FILE_BYTES_MAX)
    except OSError as error:
        raise AuthError(
            f"the file of option {name}, {path!r}, can't be read on the driver: {error.strerror}"
        ) from error
    if name.startswith("tls_") and b"-----BEGIN" not in data:
        raise AuthError(f"the file of option {name}, {path!r}, is not in PEM format")
    return data
