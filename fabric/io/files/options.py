"""Options of readers and writers, checked before anything runs.

One job: `check_known`: names and types, with the nearest name for one that there is not.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from fabric.errors import ConfigError
from fabric.plan.faults import nearest
from fabric.plan.sources import Options, OptionValue

_WORDS: dict[type, str] = {
    str: "a text", bool: "True or False", int: "a whole number", tuple: "a list of texts",
    pa.Schema: "the type of each column by its name",
}  # fmt: skip


def check_known(verb: str, known: Mapping[str, type], options: Options) -> dict[str, OptionValue]:
    """The options as a dict; raises `ConfigError` for an unknown name or a value of another type.

    >>> check_known("read_csv", {"header": bool}, (("header", False),))
    {'header': False}
    """
    for name, value in options:
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}? " if near else ""
            raise ConfigError(
                f"{verb} has no option {name!r}; {hint}it has: {', '.join(sorted(known)) or 'none'}"
            )
        if type(value) is not known[name] and not isinstance(value, pa.Schema):
            raise ConfigError(f"option {name} of {verb} is {_WORDS[known[name]]}, got {value!r}")
    return dict(options)
