"""Options of ``format("fabric")``: which stream, where, with which token.

One job: turn Spark's string options into one checked record. Reading and writing are in
`reader.py` and `writer.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.errors import ConfigError

READ = ("dataset", "job", "path")
WRITE = ("dataset", "keys", "partitions")
COMMON = ("url", "token")
SCHEMES = ("fabric://", "grpc://", "grpc+tcp://", "grpc+tls://", "grpc+unix://")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """One stream of one fabric.

    `url` is an agent's Flight address (``grpc+tcp://host:port``) or the coordinator's
    (``fabric://host:6123``); `token` defaults to the variable FABRIC_TOKEN.
    """

    url: str
    token: str = field(repr=False)
    dataset: str = ""
    job: str = ""
    path: str = ""
    keys: tuple[str, ...] = ()
    partitions: int = 0

    @property
    def descriptor(self) -> tuple[str, ...]:
        """The path of the Flight descriptor that names the stream."""
        return ("dataset", self.dataset) if self.dataset else ("job", self.job, self.path)


def parse_options(given: Mapping[str, str], *, writing: bool) -> SparkOptions:
    """Check Spark's options.

    Raises
    ------
    ConfigError
        If an option is unknown, missing, given twice in effect, or not a number where one is due.
    """
    allowed = COMMON + (WRITE if writing else READ)
    known = {name.lower(): name for name in allowed}
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in known:
            verb = "writing" if writing else "reading"
            raise ConfigError(
                f'format("fabric") has no option {name!r} for {verb}; '
                f"its options are {', '.join(allowed)}"
            )
        values[known[name.lower()]] = value
    values["token"] = values.get("token") or os.environ.get("FABRIC_TOKEN", "")
    _check_target(values, writing)
    return SparkOptions(
        url=values["url"],
        token=values["token"],
        dataset=values.get("dataset", ""),
        job=values.get("job", ""),
        path=values.get("path", ""),
        keys=tuple(key.strip() for key in values.get("keys", "").split(",") if key.strip()),
        partitions=_count(values.get("partitions", "0")),
    )


def _check_target(values: Mapping[str, str], writing: bool) -> None:
    if not values.get("url"):
        raise ConfigError(
            'format("fabric") needs .option("url", ...): an agent (grpc+tcp://host:port) or the '
            "coordinator (fabric://host:6123)"
        )
    if not values["url"].startswith(SCHEMES):
        raise ConfigError(
            f'.option("url", ...) must be an agent (grpc+tcp://host:port) or the coordinator '
            f"(fabric://host:6123), got {values['url']!r}"
        )
    if not values["token"]:
        raise ConfigError(
            'format("fabric") needs .option("token", ...), the text of the token file that '
            "`fabric up` names, or the variable FABRIC_TOKEN where Spark was started"
        )
    if writing and not values.get("dataset"):
        raise ConfigError('writing format("fabric") needs .option("dataset", name)')
    if not writing and bool(values.get("dataset")) == bool(values.get("job")):
        raise ConfigError(
            'reading format("fabric") needs either .option("dataset", name), or .option("job", id) '
            'with .option("path", node path)'
        )
    if bool(values.get("job")) != bool(values.get("path")):
        raise ConfigError('.option("job", id) and .option("path", node path) need each other')


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f'.option("partitions", ...) must be a whole number, got {text!r}')
    return int(text)
