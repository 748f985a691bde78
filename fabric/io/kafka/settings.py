"""Settings of Kafka's client: what plans may set, what is secret, what plans may access.

One job: `set_apart` splits a user's settings into public and secret ones; `check_reach` confines a
plan to `[plans] allowed_hosts` and to files that plans may read; `configuration` returns the final
settings for librdkafka. Messages never contain secrets: errors name settings, not their values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from fabric.errors import ConfigError
from fabric.io import places
from fabric.plan.places import RowFormat, Settings
from fabric.plan.sources import KafkaStream
from fabric.plan.targets import KafkaTarget

Place: TypeAlias = KafkaStream | KafkaTarget

_SECRET = re.compile(
    r"password|passphrase|secret|private\.key|key\.pem|keystore\.pem|oauthbearer\.config|jaas|"
    r"\.token$|user\.info|api\.key"
)
"""Names of settings whose values are never shown."""
_FILE = re.compile(r"\.(location|file|keytab)$")
_URL = re.compile(r"\.url$")
_AS_PEM = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
    "https.ca.location": "https.ca.pem",
    "sasl.oauthbearer.assertion.private.key.file": "sasl.oauthbearer.assertion.private.key.pem",
}
"""Files that are read where the plan is written, so that agents do not need them."""
_PROBED = "probe"
"""The `ssl.ca.location` that makes librdkafka search for the system's certificates."""
_RUNS_CODE = frozenset(
    (
        "plugin.library.paths", "ssl.engine.location", "ssl.engine.id", "ssl.providers",
        "sasl.kerberos.kinit.cmd", "opaque", "default_topic_conf",
    )
)  # fmt: skip
_OURS = {
    "bootstrap.servers": "use servers=",
    "metadata.broker.list": "use servers=",
    "group.id": "use group=, which commits offsets for monitoring; positions are in checkpoints",
    "group.instance.id": "the coordinator assigns partitions to tasks",
    "group.protocol": "the coordinator assigns partitions to tasks",
    "partition.assignment.strategy": "the coordinator assigns partitions to tasks",
    "enable.auto.commit": "use group=, which commits offsets with checkpoints",
    "enable.auto.offset.store": "use group=, which commits offsets with checkpoints",
    "auto.offset.reset": "use start= and on_expired=",
    "isolation.level": "use isolation=",
    "enable.partition.eof": "use until=",
    "transactional.id": "use guarantee= and transactional_prefix=",
    "enable.idempotence": "use guarantee=",
    "acks": "use guarantee=",
    "request.required.acks": "use guarantee=",
    "statistics.interval.ms": "Fabric chooses the interval",
}
"""Settings that only Fabric sets, and what to use instead."""
_SERVER = re.compile(
    r"(?:[A-Z_]+://)?(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?"
)


def set_apart(given: Mapping[str, object]) -> tuple[Settings, Settings]:
    """Split a user's settings into (settings, secrets), each sorted by name.

    Values are strings, numbers or booleans. Certificate and key files are read here, so that the
    agents receive their content.

    Raises
    ------
    ConfigError
        A setting is reserved for Fabric, would run code, or names a file that cannot be read.

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
    """Whether the value of a setting must be kept out of texts, logs and errors."""
    return _SECRET.search(name) is not None


def servers_of(servers: str) -> list[str]:
    """The ``host:port`` of each of `servers`, separated by commas; raises `ConfigError`.

    >>> servers_of("a:9092, SASL_SSL://b")
    ['a:9092', 'b:9092']
    """
    found = []
    for each in servers.split(","):
        match = _SERVER.fullmatch(each.strip())
        if match is None:
            raise ConfigError(
                "servers must be host:port, separated by commas, as in "
                f'"kafka-1:9092,kafka-2:9092"; got {servers[:100]!r}'
            )
        found.append(f"{match['host']}:{match['port'] or 9092}")
    return found


def check_reach(place: Place) -> None:
    """Refuse servers, registries and files that plans may not access in this process.

    Raises
    ------
    PlanError
        A host is not in `allowed_hosts`, or plans may not read a file.
    ConfigError
        A setting is reserved for Fabric, or would run code.
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
    """librdkafka's settings for connecting to the servers of `place`, secrets included."""
    check_reach(place)
    return {
        "bootstrap.servers": ",".join(servers_of(place.servers)),
        "client.id": "fabric",
        "allow.auto.create.topics": "false",  # a producer's look-up of a topic would create it
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
    """Refuse an invalid URL, or a host that plans may not access.

    Raises
    ------
    ConfigError
        `url` is not an HTTP URL, or contains credentials.
    PlanError
        The host is not in `allowed_hosts`.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{name} must be a URL like http://host:8081")
    if parts.username or parts.password:
        raise ConfigError(
            f"{name} contains a user or password; set the credentials separately, not in the URL"
        )
    places.check_host(f"{parts.scheme}://{parts.netloc}")


def _check_name(name: str) -> None:
    if name in _RUNS_CODE or name.endswith("_cb"):
        raise ConfigError(f"setting {name!r} is not allowed: it would run code")
    if (instead := _OURS.get(name)) is not None:
        raise ConfigError(f"setting {name!r} is reserved for Fabric: {instead}")


def _text(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() | int() | float() | Path():
            return str(value)
    raise ConfigError(
        f"setting {name!r} must be a string, number or bool, got {type(value).__name__}"
    )


def _content(name: str, path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, ValueError) as error:
        raise ConfigError(f"the file {path} of setting {name!r} cannot be read: {error}") from error
