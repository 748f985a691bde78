"""Where settings come from: arguments, then the environment, then one file, then defaults.

One job: `load`, which fills a config dataclass, and `explain`, which says of each setting what it
is and where it came from. ``FABRIC_AGENT_IDLE_S=5`` and, in the file,

    [agent]
    idle_s = 5

are ``AgentConfig(idle_s=5)``. The file is ``FABRIC_CONFIG``, or ``fabric.toml`` in the state
folder. Some settings have a second, well-known name (`ALIASES`): ``FABRIC_TASK_SLOTS=4``,
``task_slots = 4`` at the top of the file.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from fabric.config import default_home
from fabric.errors import ConfigError

T = TypeVar("T")
Values = dict[str, tuple[Any, str]]
"""Value and origin by field."""

FILE = "fabric.toml"
SECTIONS = ("agent", "coordinator", "adaptive", "checkpoint", "plans")
_OTHERS = ("CONFIG", "HOME", "TOKEN", "ADDRESS", "TLS_ROOTS", "DEBUG", "CPU")
_SWITCH = {"1": True, "true": True, "0": False, "false": False}
_OFF = ("off", "none", "")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min)")
_TIMES = {"ms": 0.001, "s": 1.0, "min": 60.0}


def seconds(text: object) -> float:
    """A time with its unit.

    >>> seconds("5000ms"), seconds("5 s")
    (5.0, 5.0)
    """
    found = _TIME.fullmatch(str(text).strip())
    if found is None:
        raise ConfigError(f"a time is a number and its unit, as in 5s or 5000ms, not {text!r}")
    return float(found[1]) * _TIMES[found[2]]


def _as_is(value: object) -> object:
    return value


ALIASES: Mapping[str, tuple[str, str, Callable[[object], object]]] = {
    "task_slots": ("agent", "slots", _as_is),
    "latency": ("coordinator", "latency_s", seconds),
    "heartbeat_interval": ("coordinator", "heartbeat_s", seconds),
    "heartbeat_timeout": ("coordinator", "timeout_s", seconds),
}
"""Section, field and reading of names that stand for a setting of another name."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as `explain` tells it."""

    section: str
    name: str
    meaning: str
    default: Any
    value: Any
    origin: str

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"FABRIC_{self.section}_{self.name}".upper()

    @property
    def key(self) -> str:
        """Its key in the file."""
        return f"{self.section}.{self.name}"

    @property
    def aliases(self) -> list[str]:
        """Its other names in the file; upper case and with FABRIC_ before them in variables."""
        return [
            alias
            for alias, (section, name, _) in ALIASES.items()
            if (section, name) == (self.section, self.name)
        ]


def load(kind: type[T], section: str, environ: Mapping[str, str] | None = None, **given: Any) -> T:
    """A `kind` of what was `given`, the environment and the file say; None was not given.

    Texts that are given are read as those of the environment are.

    Raises
    ------
    ConfigError
        For a name that is no setting (with the nearest that is), or a value of a wrong type.

    Examples
    --------
    >>> from fabric.config import AgentConfig
    >>> load(AgentConfig, "agent", {"FABRIC_AGENT_IDLE_S": "5"}, port=7000).idle_s
    5.0
    """
    environ = os.environ if environ is None else environ
    values = _values(kind, section, environ, given)
    around = {**environ, "FABRIC_HOME": str(given["home"])} if given.get("home") else environ
    inner: dict[str, Any] = {
        name: load(part, name, around)
        for name, part in _sections_of(kind).items()
        if name not in values
    }
    return kind(**inner, **{name: value for name, (value, _) in values.items()})


def explain(
    kind: type[T], section: str, environ: Mapping[str, str] | None = None, **given: Any
) -> list[Setting]:
    """Every setting of `kind`, in order."""
    environ = os.environ if environ is None else environ
    values = _values(kind, section, environ, given)
    loaded, hints = load(kind, section, environ, **given), _hints(kind)
    return [
        Setting(
            section=section,
            name=field.name,
            meaning=_meaning(hints[field.name]),
            default=_default(field),
            value=getattr(loaded, field.name),
            origin=values[field.name][1] if field.name in values else "default",
        )
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        if field.name not in _sections_of(kind)
    ]


def _values(
    kind: type, section: str, environ: Mapping[str, str], given: Mapping[str, Any]
) -> Values:
    """What is set, the last word first: arguments, environment, file."""
    hints = _hints(kind)
    names = [name for name in hints if name not in _sections_of(kind)]
    _check_known(given, list(hints), "setting", str)
    values: Values = {}
    for name, value in given.items():
        if value is not None:
            read = _read(value, hints[name], name) if isinstance(value, str) else value
            values[name] = (read, "argument")
    _add(values, _from_environment(environ, section, names), hints)
    path = _file(environ, given.get("home"))
    if path is not None:
        _add(values, _from_file(path, section, names), hints)
    return values


def _add(values: Values, found: Values, hints: Mapping[str, Any]) -> None:
    """Join what was `found`, where nothing with more say was."""
    for name, (value, origin) in found.items():
        if name not in values:
            values[name] = (_read(value, hints[name], origin), origin)


def _from_environment(environ: Mapping[str, str], section: str, names: list[str]) -> Values:
    start = f"FABRIC_{section.upper()}_"
    keys = {key: key.removeprefix(start).lower() for key in environ if key.startswith(start)}
    _check_known(keys.values(), names, "environment variable", lambda one: start + one.upper())
    _check_near(environ, [start + name.upper() for name in names])
    found: Values = {name: (environ[key], key) for key, name in keys.items()}
    for alias, (of, name, read) in ALIASES.items():
        key = f"FABRIC_{alias.upper()}"
        if of == section and key in environ:
            if name in found:
                raise ConfigError(f"{key} and {found[name][1]} are the same setting; set one")
            found[name] = (_aliased(read, environ[key], key), key)
    return found


def _check_near(environ: Mapping[str, str], names: list[str]) -> None:
    """Refuse variables that are nearly ours; others may be somebody else's."""
    starts = tuple(f"FABRIC_{section.upper()}_" for section in SECTIONS)
    singles = [f"FABRIC_{name}" for name in (*_OTHERS, *map(str.upper, ALIASES))]
    for key in environ:
        if not key.startswith("FABRIC_") or key.startswith(starts) or key in singles:
            continue
        if near := difflib.get_close_matches(key, [*singles, *names], n=1, cutoff=0.9):
            raise ConfigError(f"environment variable {key} is unknown; did you mean {near[0]}?")


def _file(environ: Mapping[str, str], home: Path | None) -> Path | None:
    """The file of settings, if there is one; one that was named must be there."""
    if named := environ.get("FABRIC_CONFIG"):
        return Path(named)
    folder = home or default_home(environ)
    path = Path(folder) / FILE
    return path if path.exists() else None


def _from_file(path: Path, section: str, names: list[str]) -> Values:
    table = _tables(path)
    found: Values = {}
    own = table.get(section, {})
    _check_known(own, names, f"{path}: setting", lambda name: f"{section}.{name}")
    for name, value in own.items():
        found[name] = (value, f"{path}: {section}.{name}")
    for alias, (of, name, read) in ALIASES.items():
        if of == section and alias in table:
            if name in found:
                raise ConfigError(f"{path}: {alias} and {section}.{name} are the same; set one")
            origin = f"{path}: {alias}"
            found[name] = (_aliased(read, table[alias], origin), origin)
    return found


def _tables(path: Path) -> dict[str, Any]:
    """The file, checked for sections and names at its top that nobody knows."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"can't read the settings {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"the settings {path} are not TOML: {error}") from error
    _check_known(table, [*SECTIONS, *ALIASES], f"{path}: section or setting", str)
    for name in SECTIONS:
        if not isinstance(table.get(name, {}), dict):
            raise ConfigError(f"{path}: {name} is a section: write [{name}] and its settings below")
    return table


def _aliased(read: Callable[[object], object], value: object, origin: str) -> object:
    try:
        return read(value)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from error


def _check_known(
    given: Iterable[str], names: list[str], what: str, shown: Callable[[str], str]
) -> None:
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {shown(near[0])}?" if near else ""
            raise ConfigError(f"{what} {shown(name)} is unknown{hint}")


def _read(value: Any, hint: Any, origin: str) -> Any:
    """`value`, a text or what TOML has, as a field's type; Optional types take their first."""
    kind, optional = _type(hint)
    if optional and isinstance(value, str) and value.lower() in _OFF:
        return None
    if kind is bool:
        if str(value).lower() not in _SWITCH:
            raise ConfigError(f"{origin} must be 1 or 0, got {str(value)[:80]!r}")
        return _SWITCH[str(value).lower()]
    if isinstance(value, bool) or not isinstance(value, _fitting(kind)):
        raise ConfigError(f"{origin} must be {kind.__name__}, got {str(value)[:80]!r}")
    try:
        return kind(value)
    except ConfigError as error:
        raise ConfigError(f"{origin}: {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise ConfigError(f"{origin} must be {kind.__name__}, got {str(value)[:80]!r}") from error


def _fitting(kind: type) -> tuple[type, ...]:
    """Types of TOML that a field of type `kind` can be made of."""
    if issubclass(kind, tuple):
        return (str, list)
    if kind in (str, Path):
        return (str,)
    return (str, int) if issubclass(kind, int) else (str, int, float)


def _hints(kind: type) -> dict[str, Any]:
    return {
        name: hint
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
        if name in {field.name for field in dataclasses.fields(kind)}
    }


def _sections_of(kind: type) -> dict[str, type]:
    """Fields that are a section of their own."""
    types: dict[str, type] = {name: _type(hint)[0] for name, hint in _hints(kind).items()}
    return {name: one for name, one in types.items() if hasattr(one, "__dataclass_fields__")}


def _type(hint: Any) -> tuple[Any, bool]:
    """The type of a field, and whether None is one of its values."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if typing.get_origin(hint) is typing.Literal:  # the class itself knows which
        return str, False
    options = typing.get_args(hint) or (hint,)
    return next(one for one in options if one is not type(None)), type(None) in options


def _meaning(hint: Any) -> str:
    texts = hint.__metadata__ if typing.get_origin(hint) is typing.Annotated else ()
    return next((text for text in texts if isinstance(text, str)), "")


def _default(field: Any) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()
