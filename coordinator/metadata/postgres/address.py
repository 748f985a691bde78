"""Where the database is, and how safely it is reached.

One job: `parameters_of`, which makes libpq's parameters of an address. Passwords do not belong in
an address, since those are shown by ``ps`` and written to logs: they come from the file of
PGPASSFILE, or of ``passfile=`` in the address. Anything but this machine is reached by TLS that
checks the server's certificate and name.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from fabric.errors import ConfigError
from fabric.values import is_loopback

SAFE = "verify-full"
SCHEMES = ("postgresql://", "postgres://")


def parameters_of(address: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The parameters of ``postgresql://user@host:port/database``; `ConfigError` for unsafe ones.

    >>> parameters_of("postgresql://fabric@db.example/fabric", {})["sslmode"]
    'verify-full'
    >>> parameters_of("postgresql:///fabric?host=/run/postgresql", {})
    {'dbname': 'fabric', 'host': '/run/postgresql'}
    """
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(address).items()}
    except ProgrammingError:  # its text may hold a password
        given = {}
    if not given or not address.startswith(SCHEMES):
        raise ConfigError(
            "metadata must be empty or an address such as postgresql://user@host:5432/database"
        )
    if "password" in given:
        raise ConfigError(
            "the address of metadata must not hold a password: put it in a file that PGPASSFILE "
            "names (host:port:database:user:password, mode 0600)"
        )
    if "service" in given or environ.get("PGSERVICE"):
        raise ConfigError("metadata can't be a service of pg_service.conf; give its address")
    if not _is_near(given, environ):
        mode = given.setdefault("sslmode", SAFE)
        if mode != SAFE:
            raise ConfigError(
                f"sslmode={mode} does not check whom the coordinator talks to; metadata on another "
                f"machine needs sslmode={SAFE}"
            )
    return given


def shown(parameters: Mapping[str, str]) -> str:
    """The address for people: who, where, which database.

    >>> shown({"user": "fabric", "host": "::1", "port": "5432", "dbname": "f", "sslkey": "k"})
    'postgresql://fabric@[::1]:5432/f'
    """
    host = parameters.get("host", parameters.get("hostaddr", ""))
    host = f"[{host}]" if ":" in host else host
    user = f"{parameters['user']}@" if "user" in parameters else ""
    port = f":{parameters['port']}" if "port" in parameters else ""
    return f"postgresql://{user}{host}{port}/{parameters.get('dbname', '')}"


def _is_near(given: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether every server it may mean is on this machine."""
    hosts = (
        given.get("hostaddr")
        or environ.get("PGHOSTADDR")
        or given.get("host")
        or environ.get("PGHOST")
        or "/"
    )
    return all(host.startswith(("/", "@")) or is_loopback(host) for host in hosts.split(","))
