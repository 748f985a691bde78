"""What plans may touch and run: the settings of section ``[plans]``.

One job: `PlanRules`, the same for coordinator and agents, and which hosts an entry of
`allowed_hosts` means. Who holds plans to them: `fabric.io.places`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Annotated

from fabric.errors import ConfigError
from fabric.values import Folders, Names, scheme_of

_HOST = r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])"
_PLACE = re.compile(rf"(?P<host>{_HOST})(?::(?P<port>\d{{1,5}}))?")
_ADDRESS = re.compile(rf"[A-Za-z+]+://(?P<place>{_HOST}(?::\d{{1,5}})?)/?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRules:
    """What sources, sinks and functions of plans are held to, by coordinator and agents.

    Parameters
    ----------
    allowed_folders
        Sources read files in these folders only, sinks write below them. Links count as what they
        lead to. Empty: any that the fabric's user may, but never the fabric's own.
    allowed_hosts
        Servers (Flight, Kafka's brokers, schema registries) that sources and sinks may name, as
        ``host`` (any port), ``host:port`` or ``[::1]:port``, as plans write them: a name does not
        allow its address. What Kafka's brokers call each other is theirs to say. Empty: any.
    allow_functions
        Whether plans may have Python functions. They run as the agent's user, who may read the
        fabric's secret: whoever may submit such plans can do all that an agent can.

    Examples
    --------
    >>> PlanRules(allowed_hosts=Names("db.example.com, [::1]:815")).allows_host("[0::1]:815")
    True
    """

    allowed_folders: Annotated[Folders, "where plans may read and write files; empty: anywhere"] = (
        field(default_factory=Folders)
    )
    allowed_hosts: Annotated[Names, "servers that plans may name; empty: any"] = field(
        default_factory=Names
    )
    allow_functions: Annotated[bool, "whether plans may have Python functions"] = True

    def __post_init__(self) -> None:
        for folder in self.allowed_folders:
            if scheme_of(folder) or not folder.is_absolute():
                raise ConfigError(
                    f"allowed_folders must be absolute paths, got {str(folder)!r}; write "
                    f"{str(folder.expanduser().absolute())!r}"
                )
        for entry in self.allowed_hosts:
            _entry(entry)

    def allows_host(self, place: str) -> bool:
        """Whether a plan may name the server at `place`, a host with or without its port."""
        if not self.allowed_hosts:
            return True
        try:
            host, port = _split(place)
        except ValueError:
            return False
        entries = map(_entry, self.allowed_hosts)
        return any(host == known and on in (None, port) for known, on in entries)


def place_of(uri: str) -> str:
    """Host and port of a Flight server's address; "" for what has none, such as a Unix socket.

    >>> place_of("grpc+tls://DB.example.com:815"), place_of("grpc+unix:///tmp/x.sock")
    ('DB.example.com:815', '')
    """
    found = _ADDRESS.fullmatch(uri)
    return found["place"] if found else ""


def _entry(text: str) -> tuple[str, int | None]:
    try:
        return _split(text)
    except ValueError as error:
        raise ConfigError(
            f"allowed_hosts names hosts, as in db.example.com, 10.0.0.7:815 or [::1]:815, not "
            f"{text!r}"
        ) from error


def _split(place: str) -> tuple[str, int | None]:
    """Host and port, the host in the one way that it is compared in; `ValueError` for neither."""
    try:
        return _address(place), None  # of IPv6, which has colons itself
    except ValueError:
        found = _PLACE.fullmatch(place)
        if found is None:
            raise
    host, port = found["host"].rstrip(".").lower(), found["port"]
    if host.startswith("[") or host[-1:].isdigit():
        host = _address(host.strip("[]"))
    return host, None if port is None else int(port)


def _address(text: str) -> str:
    """An address in its shortest form; one of IPv4 within IPv6 is that of IPv4."""
    address = ipaddress.ip_address(text)
    return str(getattr(address, "ipv4_mapped", None) or address)
