"""The values of settings: sizes, folders, names, hosts and URLs, and the checks of each.

One job: `ByteSize`, `Folders` and `Names` read texts, the checks refuse with the sentence that says
what to write instead. `scheme_of` says which texts are URLs where the path of a file or folder is
needed, and `unreachable` refuses them, the same for readers, writers and settings.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from fabric.errors import ConfigError

_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtT]?i?[bB]?)")
_UNITS = {
    prefix + binary + b: (1024 if binary else 1000) ** power
    for power, prefix in enumerate(("", "k", "m", "g", "t"))
    for binary in ("", "i")
    for b in ("", "b")
}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")


class ByteSize(int):
    """A number of bytes; as text with a unit of 1000 (KB, MB, GB) or 1024 (KiB, MiB, GiB).

    >>> ByteSize("512MB"), ByteSize("1.5 GiB"), ByteSize(4096)
    (512000000, 1610612736, 4096)
    """

    def __new__(cls, value: int | str) -> ByteSize:
        """Read it; `ConfigError` when it is none."""
        if not isinstance(value, str):
            return super().__new__(cls, value)
        found = _BYTES.fullmatch(value.strip())
        if found is None:
            raise ConfigError(f"a size is a number and a unit, as in 512MB or 2GiB, not {value!r}")
        return super().__new__(cls, int(float(found[1]) * _UNITS[found[2].lower()]))

    def __repr__(self) -> str:
        return int.__repr__(self)


class Folders(tuple[Path, ...]):
    """Folders; as text separated like PATH.

    >>> [path.as_posix() for path in Folders("/a:/b")]
    ['/a', '/b']
    """

    __slots__ = ()

    def __new__(cls, value: str | Iterable[str | Path] = ()) -> Folders:
        """Split a text."""
        if isinstance(value, str):
            value = [Path(name) for name in value.split(os.pathsep) if name]
        return super().__new__(cls, map(Path, value))


class Names(tuple[str, ...]):
    """Names; as text separated by commas.

    >>> list(Names("a, b"))
    ['a', 'b']
    """

    __slots__ = ()

    def __new__(cls, value: str | Iterable[str] = ()) -> Names:
        """Split a text."""
        found = [name.strip() for name in (value.split(",") if isinstance(value, str) else value)]
        return super().__new__(cls, [name for name in found if name])


def check_port(port: int) -> None:
    """Raise `ConfigError` unless `port` is one, or 0."""
    if not 0 <= port < 65536:
        raise ConfigError(f"port must be 0 to 65535, got {port!r}")


def check_numbers(config: object, *names: str, whole: bool = False) -> None:
    """Raise `ConfigError` unless these fields of `config` are numbers."""
    for name in names:
        value = getattr(config, name)
        fits = isinstance(value, int) or (isinstance(value, float) and not whole)
        if not fits or isinstance(value, bool):
            kind = "a whole number" if whole else "a number"
            raise ConfigError(f"{name} must be {kind}, got {value!r}")


def one_of(choices: object) -> str:
    """The values of a `Literal` for a message.

    >>> from typing import Literal
    >>> print(one_of(Literal["a", "b", "c"]))
    'a', 'b' or 'c'
    """
    *others, last = map(repr, get_args(choices))
    return f"{', '.join(others)} or {last}"


def check_positive(config: object, *names: str) -> None:
    """Raise `ConfigError` unless these fields of `config` are positive."""
    for name in names:
        if (value := getattr(config, name)) <= 0:
            raise ConfigError(f"{name} must be positive, got {value!r}")


def check_bind(host: str, tls_certificate: Path | None, tls_key: Path | None) -> None:
    """Refuse to listen where strangers can connect unless the line is encrypted.

    Authentication by token is always on, but a token sent in the clear can be read on the way.
    """
    if (tls_certificate is None) != (tls_key is None):
        raise ConfigError("tls_certificate and tls_key belong together; give both or none")
    if tls_certificate is None and not is_loopback(host):
        raise ConfigError(
            f"refusing to listen on {host!r} without TLS; give tls_certificate and tls_key, or "
            "listen on 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to `host`.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def scheme_of(path: str | os.PathLike[str]) -> str:
    """The scheme of a URL, also of one that was made a `Path` (which has one slash less); else "".

    >>> scheme_of("S3://bucket/x"), scheme_of("/data/x")
    ('s3', '')
    """
    text = str(path)
    return text.partition(":")[0].lower() if _URL.match(text) else ""


def unreachable(path: str | os.PathLike[str], what: str, way: str, *, stores: bool = False) -> str:
    """Why `what` can't use the URL `path`, and the `way` to do without.

    `stores`: it can use those of object stores.
    """
    known = ", or objects of s3://, gs:// and az://" if stores else ""
    return f"{what} can't reach {path}: paths are of local or mounted file systems{known}; {way}"


def unreachable_folder(path: str | os.PathLike[str], what: str, *, stores: bool = False) -> str:
    """Why `what` can't be a folder at the URL `path`; "" when it is none."""
    if not (scheme := scheme_of(path)):
        return ""
    if scheme == "file":
        way = f"write the path: {'/' + str(path).partition(':')[2].lstrip('/')!r}"
    else:
        way = "name a folder that all agents see, or mount the store there"
    return unreachable(path, what, way, stores=stores)
