"""Options of ``format("fabric")``: which stream, where, as whom.

One job: turn Spark's string options into one checked record. Reading and writing are in
`reader.py` and `writer.py`. `Credentials` (token and TLS, from options, files or the environment)
are read once on the driver and sent along to the workers, so that files need to lie on the driver's
host only. None of them is ever shown: not by `repr`, not in messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

from fabric.errors import AuthError, ConfigError
from fabric.security.tls import check_private

TARGETS = ("dataset", "job", "command", "descriptor")
READ = (
    "dataset", "job", "path", "partition", "command", "descriptor", "columns", "min_partitions",
    "max_partitions", "push_filters",
)  # fmt: skip
WRITE = ("dataset", "path", "keys", "partitions", "replicas", "if_exists")
CREDENTIALS = ("token", "token_file", "tls_ca", "tls_cert", "tls_key", "insecure")
COMMON = ("url", *CREDENTIALS, "timeout_s")
SCHEMES = (
    "fabric://", "fabric+tls://", "grpc://", "grpc+tcp://", "grpc+tls://", "grpc+unix://",
)  # fmt: skip
IF_EXISTS = ("append", "error", "ignore")
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """One stream of one fabric.

    `url` is an agent's Flight address (``grpc+tcp://host:port``), any other Flight server's, or the
    coordinator's (``fabric://host:6123``, with TLS ``fabric+tls://host:6123``). Of `path` and
    `command` one says what to read.
    """

    url: str
    credentials: Credentials = field(repr=False)
    path: tuple[str, ...] = ()
    command: bytes = b""
    dataset: str = ""
    columns: tuple[str, ...] = ()
    min_partitions: int = 0
    max_partitions: int = 0
    push_filters: bool = True
    keys: tuple[str, ...] = ()
    partitions: int = 0
    replicas: int = 0
    if_exists: str = "append"
    timeout_s: float = _TIMEOUT_S


def parse_options(given: Mapping[str, str], *, writing: bool) -> SparkOptions:
    """Check Spark's options; names in any case.

    Raises
    ------
    ConfigError
        If an option is unknown (names the nearest), missing, contradicts another, or does not hold
        what it should.
    """
    values = _known(given, writing)
    if values.get("path") and not values.get("job"):  # .load("flights"), .save("flights")
        _name_dataset(values)
    _check_url(values.get("url", ""))
    credentials = read_credentials(values, values["url"])
    if not credentials.token and not (values.get("command") or values.get("descriptor")):
        raise ConfigError(
            'format("fabric") needs .option("token", ...), the text of the token file that '
            '`fabric up` names, .option("token_file", path), or the variable FABRIC_TOKEN where '
            "Spark was started"
        )
    common = SparkOptions(
        url=values["url"],
        credentials=credentials,
        dataset=values.get("dataset", ""),
        timeout_s=_seconds(values.get("timeout_s", "")),
    )
    return _write(common, values) if writing else _read(common, values)


def _known(given: Mapping[str, str], writing: bool) -> dict[str, str]:
    """Values by the names as we write them."""
    allowed = COMMON + (WRITE if writing else READ)
    values: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() not in allowed:
            raise ConfigError(_unknown(name, allowed, writing))
        values[name.lower()] = value
    return values


def _name_dataset(values: dict[str, str]) -> None:
    if values.get("dataset"):
        raise ConfigError(
            f"the dataset is named twice, as {values['dataset']!r} and as {values['path']!r}; a "
            'path with .option("job", id) would be a node\'s'
        )
    values["dataset"] = values.pop("path")


def _unknown(name: str, allowed: tuple[str, ...], writing: bool) -> str:
    verb = "writing" if writing else "reading"
    text = f'format("fabric") has no option {name!r} for {verb}'
    near = get_close_matches(name.lower(), allowed, n=1, cutoff=0.6)
    if near:
        text += f"; did you mean {near[0]!r}?"
    return f"{text}; its options are {', '.join(allowed)}"


def _check_url(url: str) -> None:
    wanted = "an agent (grpc+tcp://host:port) or the coordinator (fabric://host:6123)"
    if not url:
        raise ConfigError(f'format("fabric") needs .option("url", ...): {wanted}')
    if not url.startswith(SCHEMES):
        raise ConfigError(f'.option("url", ...) must be {wanted}, got {url!r}')


def _read(common: SparkOptions, values: Mapping[str, str]) -> SparkOptions:
    _check_target(values)
    least, most = _count(values, "min_partitions"), _count(values, "max_partitions")
    if most and least > most:
        raise ConfigError(f"min_partitions {least} is more than max_partitions {most}")
    return replace(
        common,
        path=_path(values),
        command=values.get("command", "").encode(),
        columns=_names(values, "columns"),
        min_partitions=least,
        max_partitions=most,
        push_filters=_flag(values, "push_filters", "true"),
    )


def _write(common: SparkOptions, values: Mapping[str, str]) -> SparkOptions:
    if not common.dataset:
        raise ConfigError(
            'writing format("fabric") needs .save(dataset name), or .option("dataset", name)'
        )
    if_exists = values.get("if_exists", "append").lower()
    if if_exists not in IF_EXISTS:
        raise ConfigError(
            f'.option("if_exists", ...) is one of {", ".join(IF_EXISTS)}, got {if_exists!r}'
        )
    return replace(
        common,
        path=("dataset", common.dataset),
        keys=_names(values, "keys"),
        partitions=_count(values, "partitions"),
        replicas=_replicas(values),
        if_exists=if_exists,
    )


def _check_target(values: Mapping[str, str]) -> None:
    if sum(bool(values.get(name)) for name in TARGETS) != 1:
        raise ConfigError(
            'reading format("fabric") needs one of .load(dataset name), .option("dataset", name), '
            '.option("job", id) with .option("path", node path), .option("command", text) and '
            '.option("descriptor", \'["element", ...]\')'
        )
    if values.get("job") and not values.get("path"):
        raise ConfigError('.option("job", id) needs .option("path", node path)')
    if values.get("partition") and not values.get("job"):
        raise ConfigError('.option("partition", n) is of a job\'s node: give job and path too')


def _path(values: Mapping[str, str]) -> tuple[str, ...]:
    """The elements of the Flight descriptor; none for a command."""
    if values.get("dataset"):
        return ("dataset", values["dataset"])
    if values.get("job"):
        partition = str(_count(values, "partition")) if values.get("partition") else ""
        path = ("job", values["job"], values["path"])
        return (*path, partition) if partition else path
    if values.get("descriptor"):
        return _json_names(values["descriptor"], "descriptor")
    return ()


def _names(values: Mapping[str, str], option: str) -> tuple[str, ...]:
    """Column names: separated by commas, or a JSON list for names with commas in them."""
    text = values.get(option, "").strip()
    if text.startswith("["):
        return _json_names(text, option)
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _json_names(text: str, option: str) -> tuple[str, ...]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise ConfigError(f'.option("{option}", ...) must be a JSON list of texts, got {text!r}')
    return tuple(names)


def _count(values: Mapping[str, str], option: str) -> int:
    text = values.get(option, "0")
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f'.option("{option}", ...) must be a whole number, got {text!r}')
    return int(text)


def _replicas(values: Mapping[str, str]) -> int:
    """0 when it is left out: those the dataset has, else 1."""
    if "replicas" in values and _count(values, "replicas") < 1:
        raise ConfigError(
            f'.option("replicas", ...) must be at least 1, got {values["replicas"]!r}'
        )
    return _count(values, "replicas")


def _seconds(text: str) -> float:
    try:
        seconds = float(text) if text else _TIMEOUT_S
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise ConfigError(f'.option("timeout_s", ...) must be seconds above 0, got {text!r}')
    return seconds


def _flag(values: Mapping[str, str], option: str, default: str) -> bool:
    text = values.get(option, default).lower()
    if text not in ("true", "false"):
        raise ConfigError(f'.option("{option}", ...) must be true or false, got {text!r}')
    return text == "true"


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
    tls = [name for name in CREDENTIALS if name.startswith("tls_") and given.get(name)]
    if tls and not url.startswith(("grpc+tls://", "fabric://", "fabric+tls://")):
        raise ConfigError(
            f"the option {tls[0]} needs an address with TLS (grpc+tls://host:port), got {url!r}"
        )
    return Credentials(
        token=_token(given),
        tls_ca=_file(given, "tls_ca"),
        tls_identity=_identity(given),
        insecure=_flag(given, "insecure", "false"),
    )


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
