"""Functions of strings, patterns and bytes in DuckDB SQL with Spark's meaning.

One job: the templates and builders of these families. Not here, because DuckDB has nothing that
means the same: initcap soundex levenshtein base64 unbase64 unhex crc32, split with a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fabric.plan.patterns.regex import parse
from fabric.plan.patterns.replacement import parse as parse_replacement
from fabric.plan.patterns.replacement import parse_rust
from tests.support.duckdb.call import Args, Builders, Literals, Signature

_PADDED = (
    "CASE WHEN {{2}} = '' THEN left({{0}}, {{1}} * CAST({{1}} > 0 AS INTEGER)) "
    "ELSE {name}({{0}}, {{1}} * CAST({{1}} > 0 AS INTEGER), {{2}}) END"
)
TEMPLATES: dict[str, str] = {
    "reverse": "reverse({0})",
    "lpad": _PADDED.format(name="lpad"),
    "rpad": _PADDED.format(name="rpad"),
    "repeat": "repeat({0}, {1} * CAST({1} > 0 AS INTEGER))",
    "translate": "translate({0}, {1}, {2})",
    "instr": "CAST(instr({0}, {1}) AS INTEGER)",
    "ascii": "CASE WHEN {0} = '' THEN 0 ELSE unicode({0}) END",
    "chr": "CASE WHEN {0} < 0 THEN '' ELSE chr(CAST({0} % 256 AS INTEGER)) END",
    "split_part": (
        "CASE WHEN {2} = 0 AND {0} IS NOT NULL AND {1} IS NOT NULL THEN error('no part 0') "
        "WHEN {1} = '' THEN CASE WHEN {0} IS NULL OR {2} IS NULL THEN NULL "
        "WHEN {2} IN (1, -1) THEN {0} ELSE '' END ELSE split_part({0}, {1}, {2}) END"
    ),
    "like": "({0} LIKE {1} ESCAPE '\\')",
    "ilike": "(lower({0}) LIKE lower({1}) ESCAPE '\\')",
    "hex": "hex({0})",
    "bin": "bin({0})",
    "md5": "md5({0})",
    "sha1": "sha1({0})",
}


def _text(text: str) -> str:
    from tests.support.duckdb.expressions import text_sql

    return text_sql(text)


def _trimmed(name: str) -> Callable[[Args, Signature, Literals], str]:
    def build(args: Args, _: Signature, __: Literals) -> str:
        if len(args) == 1:
            return f"{name}({args[0]}, ' ')"
        return f"CASE WHEN {args[1]} = '' THEN {args[0]} ELSE {name}({args[0]}, {args[1]}) END"

    return build


def _concat_ws(args: Args, _: Signature, __: Literals) -> str:
    if len(args) == 1:
        return f"CASE WHEN {args[0]} IS NOT NULL THEN '' END"
    return f"concat_ws({', '.join(args)})"


def _split(args: Args, _: Signature, __: Literals) -> str:
    if len(args) == 3:
        raise ValueError("no SQL for a split with a limit")
    return f"CASE WHEN {args[1]} IS NOT NULL THEN string_split({args[0]}, {args[1]}) END"


def _sha2(args: Args, _: Signature, literals: Literals) -> str:
    literal = literals[1]
    if literal is None or literal.value not in (0, 256):
        raise ValueError("no SQL for a sha2 of other than 256 bits")
    return f"sha256({args[0]})"


def _by_pattern(
    template: str,
    result: str,
    others: Callable[..., tuple[str, ...]] = lambda *_: (),
    *,
    rust: bool = False,
) -> Callable[[Args, Signature, Literals], str]:
    """The template over the text, the pattern for RE2 and what `others` makes of the constants."""

    def build(args: Args, _: Signature, literals: Literals) -> str:
        values: list[Any] = [literal and literal.value for literal in literals[1:]]
        if None in values:
            return f"CAST(NULL AS {result})"
        pattern = _text(parse(values[0], rust=rust).re2())
        return template.format(args[0], pattern, *others(*values))

    return build


def _group(_: str, group: int) -> tuple[str, ...]:
    return (str(group),)


def _replacement(pattern: str, text: str) -> tuple[str, ...]:
    return (_text(parse_replacement(text, parse(pattern)).re2()),)


def _rust_replacement(pattern: str, text: str) -> tuple[str, ...]:
    return (_text(parse_rust(text, parse(pattern, rust=True)).re2()),)


_COUNTED = "CAST(len(regexp_extract_all({0}, {1})) AS INTEGER)"
BUILDERS: Builders = {
    "trim": _trimmed("trim"),
    "ltrim": _trimmed("ltrim"),
    "rtrim": _trimmed("rtrim"),
    "concat_ws": _concat_ws,
    "split": _split,
    "sha2": _sha2,
    "regexp_contains": _by_pattern("regexp_matches({0}, {1})", "BOOLEAN"),
    "regexp_extract": _by_pattern("regexp_extract({0}, {1}, {2})", "VARCHAR", _group),
    "regexp_extract_all": _by_pattern(
        "list_transform(regexp_extract_all({0}, {1}, {2}), lambda x: coalesce(x, ''))",
        "VARCHAR[]",
        _group,
    ),
    "regexp_replace": _by_pattern("regexp_replace({0}, {1}, {2}, 'g')", "VARCHAR", _replacement),
    "regexp_count": _by_pattern(_COUNTED, "INTEGER"),
    "pattern_contains": _by_pattern("regexp_matches({0}, {1})", "BOOLEAN", rust=True),
    "pattern_extract": _by_pattern(
        "CASE WHEN regexp_matches({0}, {1}) THEN regexp_extract({0}, {1}, {2}) END",
        "VARCHAR",
        _group,
        rust=True,
    ),
    "pattern_extract_all": _by_pattern("regexp_extract_all({0}, {1})", "VARCHAR[]", rust=True),
    "pattern_replace": _by_pattern(
        "regexp_replace({0}, {1}, {2})", "VARCHAR", _rust_replacement, rust=True
    ),
    "pattern_replace_all": _by_pattern(
        "regexp_replace({0}, {1}, {2}, 'g')", "VARCHAR", _rust_replacement, rust=True
    ),
    "pattern_count": _by_pattern(_COUNTED, "INTEGER", rust=True),
}
