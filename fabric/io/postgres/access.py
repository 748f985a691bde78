"""Addresses of databases: what users say, what of it is secret, and where plans may go.

One job: `parameters_of`, which takes an address apart, `shown`, the part for people, `check_place`,
and `conninfo`, the whole for libpq. Nothing of an agent's own surroundings is used (variables
``PG…``, ``~/.pgpass``, certificates in ``~/.postgresql``): a plan must not get into a database by
what an agent happens to know.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from fabric.errors import AuthError, ConfigError, PlanError
from fabric.io import places
from fabric.plan.places import Settings
from fabric.plan.targets import PostgresTarget
from fabric.values import is_loopback

CONNECT_S = 5
"""For one attempt to connect."""
NEEDED = "psycopg, which is not installed; run: pip install 'flight-fabric[postgres]'"
SECRETS = ("password", "sslpassword")
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile")
_PARAMETERS = frozenset({
    "host", "hostaddr", "port", "dbname", "user", "sslmode", "channel_binding", "require_auth",
    "ssl_min_protocol_version", "ssl_max_protocol_version", "sslsni",
    "target_session_attrs", "load_balance_hosts", "application_name", "connect_timeout",
    "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count",
    "tcp_user_timeout", *SECRETS, *_FILES,
})  # fmt: skip
_ENCRYPTED = ("require", "verify-ca", "verify-full")
_SYSTEM = "system"
"""Of `sslrootcert`: whom the system trusts."""


# ---- what users say


def parameters_of(
    dsn: str,
    password: str = "",
    *,
    insecure: bool = False,
    verb: str = "write_postgres",
    environ: Mapping[str, str] = os.environ,
) -> tuple[Settings, Settings]:
    """An address as settings that may be shown, and as secrets.

    Without a password it is that of the variable ``PGPASSWORD`` where the program runs.

    Raises
    ------
    ConfigError, AuthError
        It is no address of one database; or the password could be read on its way.

    Examples
    --------
    >>> settings, secrets = parameters_of("postgresql://ann:pw@db.example/sales")
    >>> dict(settings)["sslmode"], dict(secrets)
    ('verify-full', {'password': 'pw'})
    """
    given = _taken_apart(dsn, verb)
    if unknown := sorted(given.keys() - _PARAMETERS):
        raise ConfigError(
            f"{verb}: dsn has unknown parameters: {', '.join(unknown)}; it may have host, port, "
            "dbname, user, password, sslmode, sslrootcert, sslcert, sslkey and other parameters of "
            "libpq that concern only the connection"
        )
    for name in ("host", "dbname", "user"):
        if not given.get(name) and not (name == "host" and given.get("hostaddr")):
            raise ConfigError(
                f'{verb}: dsn has no {name}; write: dsn="postgresql://user@host:5432/database"'
            )
    if password:
        given["password"] = password
    elif "password" not in given and "passfile" not in given and environ.get("PGPASSWORD"):
        given["password"] = environ["PGPASSWORD"]
    if not _is_near(given) and "sslmode" not in given and not insecure:
        given["sslmode"] = "verify-full"
    _check_clear(given, insecure)
    settings = tuple(sorted((k, v) for k, v in given.items() if k not in SECRETS))
    return settings, tuple(sorted((k, v) for k, v in given.items() if k in SECRETS))


def _taken_apart(dsn: str, verb: str) -> dict[str, str]:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        raise ConfigError(f"{verb} needs {NEEDED}") from error
    if not isinstance(dsn, str):
        raise ConfigError(f"{verb}: dsn must be a string, got {type(dsn).__name__}")
    try:
        found = conninfo_to_dict(dsn)
    except ProgrammingError:  # its text may hold a password
        found = {}
    if not found:
        raise ConfigError(
            f"{verb}: dsn is not a valid connection string; write: "
            'dsn="postgresql://user:password@host:5432/database"'
        )
    return {name: str(value) for name, value in found.items()}


def _check_clear(given: Mapping[str, str], insecure: bool) -> None:
    if insecure or _is_near(given) or given.get("sslmode") in _ENCRYPTED:
        return
    host = given.get("host") or given.get("hostaddr", "")
    raise AuthError(
        f"refusing to send a password and rows to {host} in the clear: others on the network could "
        f"read them; use sslmode=verify-full (or require), or set insecure=True"
    )


def _is_near(given: Mapping[str, str]) -> bool:
    """Whether every server that it may mean is on this machine."""
    hosts = given.get("hostaddr") or given.get("host", "")
    return all(_is_socket(host) or is_loopback(host) for host in hosts.split(","))


def _is_socket(host: str) -> bool:
    return host.startswith(("/", "@"))


def shown(settings: Settings) -> str:
    """The address for people: who, where, which database.

    >>> shown((("dbname", "d"), ("host", "::1"), ("port", "5433"), ("user", "u")))
    'postgresql://u@[::1]:5433/d'
    """
    given = {name: str(value) for name, value in settings}
    host = given.get("host", given.get("hostaddr", ""))
    host = f"[{host}]" if ":" in host else host
    port = f":{given['port']}" if "port" in given else ""
    return f"postgresql://{given.get('user', '')}@{host}{port}/{given.get('dbname', '')}"


# ---- where plans may go


def check_place(target: PostgresTarget) -> None:
    """Refuse a database that plans may not reach, and files that they may not read.

    Raises
    ------
    PlanError, AuthError
        By this process's settings; or what is sent could be read on its way.
    """
    given = {name: str(value) for name, value in (*target.settings, *target.secrets)}
    if unknown := sorted(given.keys() - _PARAMETERS):
        raise PlanError(
            f"the address of a database has unknown parameters: {', '.join(unknown)[:200]}"
        )
    hosts = (given.get("hostaddr") or given.get("host") or "").split(",")
    ports = given.get("port", "").split(",")
    for number, host in enumerate(hosts):
        port = ports[min(number, len(ports) - 1)] or "5432"
        if not host or (_is_socket(host) and places.are_guarded()):
            raise PlanError(
                "plans reach a database by TCP: its sockets know agents, not who wrote the plan; "
                "name its host"
            )
        if not _is_socket(host):
            name = f"[{host}]" if ":" in host else host
            places.check_host(f"postgresql://{name}:{port}")
    for name in _FILES:
        if given.get(name) and given[name] != _SYSTEM:
            places.check_read(given[name])
    _check_clear(given, target.insecure)


def conninfo(target: PostgresTarget) -> str:
    """All that libpq is told, so that it looks nothing up by itself."""
    from psycopg.conninfo import make_conninfo

    given = {name: str(value) for name, value in (*target.settings, *target.secrets)}
    defaults = {
        "connect_timeout": str(CONNECT_S), "application_name": "fabric", "port": "5432",
        "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3",
        "password": "", "passfile": f"{os.devnull}/none", "gssencmode": "disable",
        "sslcertmode": "allow" if "sslcert" in given else "disable", "client_encoding": "UTF8",
    }  # fmt: skip
    return make_conninfo("", **{**defaults, **given})
