"""Settings of Kafka's client: what plans may say, what is secret, where they reach.

One job: `set_apart` splits what a user gives into settings and secrets; `check_reach` holds a plan
to `[plans] allowed_hosts` and to files that plans may read; `configuration` is what librdkafka is
given in the end. A secret is never in a message: errors name settings, not their values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from fabric.errors import ConfigError
from fabric.io import places
from fabric.plan.sources import KafkaStream, KafkaTarget, RowFormat, Settings

Place: TypeAlias = KafkaStream | KafkaTarget

_SECRET = re.compile(
    r"password|passphrase|secret|private\.key|key\.pem|keystore\.pem|oauthbearer\.config|jaas|"
    r"\.token$|user\.info|api\.key"
)
"""Names of settings whose values nobody may see."""
_FILE = re.compile(r"\.(location|file|keytab)$")
_URL = re.compile(r"\.url$")
_AS_PEM = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
    "https.ca.location": "https.ca.pem",
    "sasl.oauthbearer.assertion.private.key.file": "sasl.oauthbearer.assertion.private.key.pem",
}
"""Files that a client reads, so that agents need not have them."""
_PROBED = "probe"
"""The `ssl.ca.location` that has librdkafka look for the system's certificates."""
_RUNS_CODE = frozenset(
    (
        "plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "ssl.providers",
        "sasl.kerberos.kinit.cmd", "opaque", "default_topic_conf",
    )
)  # fmt: skip
_OURS = {
    "bootstrap.servers": "say servers=",
    "metadata.broker.list": "say servers=",
    "group.id": "say group=; it is told offsets, positions lie in checkpoints",
    "group.instance.id": "tasks have their partitions from the coordinator",
    "group.protocol": "tasks have their partitions from the coordinator",
    "partition.assignment.strategy": "tasks have their partitions from the coordinator",
    "enable.auto.commit": "offsets are committed with checkpoints, to group=",
    "enable.auto.offset.store": "offsets are committed with checkpoints, to group=",
    "auto.offset.reset": "say start= and on_expired=",
    "isolation.level": "say isolation=",
    "enable.partition.eof": "say until=",
    "transactional.id": "say guarantee= and transactional_prefix=",
    "enable.idempotence": "say guarantee=",
    "acks": "say guarantee=",
    "request.required.acks": "say guarantee=",
    "statistics.interval.ms": "it is set by the fabric",
}
"""Settings that are the fabric's to set, and what to say instead."""
_SERVER = re.compile(
    r"(?:[A-Z_]+://)?(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?"
)


def set_apart(given: Mapping[str, object]) -> tuple[Settings, Settings]:
    """What a user gives, as (settings, secrets), each sorted by name.

    Values are texts, numbers or booleans. Files of certificates and keys are read here, so that
    what the agents get is their content.

    Raises
    ------
    ConfigError
        A setting is the fabric's own, runs code, or its file can't be read.

    Examples
    --------
    >>> set_apart({"sasl.username": "ada", "sasl.password": "x", "socket.keepalive.enable": True})
    ((('sasl.username', 'ada'), ('socket.keepalive.enable', 'true')), (('sasl.password', 'x'),))
    """
    settings: dict[str, str] = {}
    for name, value in given.items():
        _check_name(name)
        pem = _AS_PEM.get(name)
        if pem is None or value == _PROBED or Path(str(value)).is_dir():
            settings[name] = _text(name, value)
        else:
            settings[pem] = _content(name, str(value))
    open_ones = {name: value for name, value in settings.items() if not is_secret(name)}
    hidden = {name: value for name, value in settings.items() if is_secret(name)}
    return tuple(sorted(open_ones.items())), tuple(sorted(hidden.items()))


def is_secret(name: str) -> bool:
    """Whether the value of a setting may be in no text, log or error."""
    return _SECRET.search(name) is not None


def servers_of(servers: str) -> list[str]:
    """The ``host:port`` of each of `servers`, a list between commas; raises `ConfigError`.

    >>> servers_of("a:9092, SASL_SSL://b")
    ['a:9092', 'b:9092']
    """
    found = []
    for each in servers.split(","):
        match = _SERVER.fullmatch(each.strip())
        if match is None:
            raise ConfigError(
                "servers of Kafka are hosts and ports between commas, as in "
                f'"kafka-1:9092,kafka-2:9092", got {servers[:100]!r}'
            )
        found.append(f"{match['host']}:{match['port'] or 9092}")
    return found


def check_reach(place: Place) -> None:
    """Refuse servers, registries and files that plans may not reach in this process.

    Raises
    ------
    PlanError
        A host is not among `allowed_hosts`, or a file can't be read by plans.
    ConfigError
        A setting is the fabric's own, or would run code.
    """
    for server in servers_of(place.servers):
        places.check_host(f"kafka://{server}")
    for name, value in (*place.settings, *place.secrets):
        _check_name(name)
        if _FILE.search(name) and value != _PROBED:
            places.check_read(value)
        if _URL.search(name):
            check_url(name, value)
    for format in (place.value, place.key_format):
        _check_registry(format)


def configuration(place: Place) -> dict[str, str]:
    """What librdkafka is given to reach the servers of `place`, secrets included."""
    check_reach(place)
    return {
        "bootstrap.servers": ",".join(servers_of(place.servers)),
        "client.id": "fabric",
        **dict(place.settings),
        **dict(place.secrets),
    }


def _check_registry(format: RowFormat) -> None:
    if format.registry:
        check_url("registry", format.registry)
    for name, value in format.registry_settings:
        if _FILE.search(name):
            places.check_read(value)


def check_url(name: str, url: str) -> None:
    """Refuse what is no URL of a server that plans may call; raises `ConfigError`, `PlanError`."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{name} is not a URL; write one as in http://host:8081")
    if parts.username or parts.password:
        raise ConfigError(f"{name} holds a user or password; give them apart from the URL")
    places.check_host(f"{parts.scheme}://{parts.netloc}")


def _check_name(name: str) -> None:
    if name in _RUNS_CODE or name.endswith("_cb"):
        raise ConfigError(f"setting {name!r} of Kafka's client is refused: it would run code")
    if (instead := _OURS.get(name)) is not None:
        raise ConfigError(f"setting {name!r} of Kafka's client is the fabric's own: {instead}")


def _text(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float() | Path():
            return str(value)
    raise ConfigError(f"setting {name!r} is a text, number or bool, got a {type(value).__name__}")


def _content(name: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(f"the file of {name}, {path}, can't be read: {error}") from error
