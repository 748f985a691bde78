"""Options that readers and writers share: those of file formats, and of addresses with TLS.

One job: `file_options`, under the names that other libraries give them too, and `roots_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from fabric.clients.dataframe.literal import SchemaLike, to_schema
from fabric.clients.dataframe.names import whole
from fabric.config import TLS
from fabric.errors import ConfigError, PlanError
from fabric.io.files.options import check_names
from fabric.plan import places
from fabric.security.tls import check_clear, read_pem

FileOption: TypeAlias = bool | int | str | Sequence[str] | SchemaLike | None
"""An option of a reader or writer of files, by its kind."""
_ALIASES = {
    "sep": "delimiter", "separator": "delimiter", "has_header": "header", "dtypes": "types",
}  # fmt: skip
"""What Polars and pandas call options of CSV; the last one is of JSON, too."""


_NONE = {"header": "header=False", "compression": 'compression="none"'}
"""What None means in other libraries, where it would be taken for the default."""


def file_options(options: Mapping[str, Any], verb: str, known: Iterable[str]) -> places.Options:
    """Options as they travel, by their own names; Python's own words for them are taken, too."""
    ours = {given: _ALIASES.get(given, given) for given in options}
    names = {given: name if name in known else given for given, name in ours.items()}
    check_names(verb, known, names.values())
    found: dict[str, places.OptionValue] = {}
    for given, value in options.items():
        name = names[given]
        if twin := next((one for one in names if names[one] == name and one != given), None):
            raise PlanError(f"{verb} was given {given} and {twin}, which are one; leave one out")
        if value is None and name in _NONE:
            raise PlanError(f"{verb}: {given}=None is not a valid {given}; write: {_NONE[name]}")
        if value is not None or name == "quote":  # None is what is not given, and no quoting
            found[name] = _option(name, value, verb)
    return tuple(sorted(found.items()))


def _option(name: str, value: Any, verb: str) -> places.OptionValue:
    match value:
        case None:
            return ""
        case bool() | int():
            if name in ("skip_rows", "n_rows", "sample_bytes"):
                return whole(value, 0, verb, name)
            return value
        case str():
            return (value,) if name in ("null_values", "names") else value
        case pa.Schema() | Mapping() if name in ("types", "schema"):
            return to_schema(value, verb, name)
        case list() | tuple() if all(isinstance(part, str) for part in value):
            return tuple(value)
    hint = '; write: null_values=["NA"], for all columns' if name == "null_values" else ""
    raise PlanError(f"{verb}: option {name} can't be {value!r}{hint}")


def roots_of(uri: str, path: str | Path | None, token: str, insecure: bool) -> bytes:
    """What the file of roots holds; a token that would go in the clear is refused here already."""
    if token:
        check_clear(uri, insecure)
    if path is None:
        return b""
    if not uri.startswith(TLS):
        raise ConfigError(f"tls_roots is for addresses with TLS ({TLS}host:port), got {uri!r}")
    return read_pem(Path(path))
