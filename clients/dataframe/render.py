"""Tables, plans and explanations as text and HTML.

One job: strings for people. No dependency; values are cut to what a terminal can hold.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyarrow import types

from fabric.plan.check import check
from fabric.plan.nodes import Plan
from fabric.plan.printer import tree

if TYPE_CHECKING:
    from fabric.control import control_pb2 as pb

HEAD_ROWS = 10
"""How many rows a notebook is shown."""
_CELL_MAX = 40
_LINES = "┌┬┐", "├┼┤", "└┴┘"


@dataclass(frozen=True, slots=True)
class Head:
    """The first rows of a table, and how many it has; None: more than `rows`."""

    rows: pa.Table
    n_rows: int | None

    @classmethod
    def of(cls, table: pa.Table, *, is_whole: bool = True) -> Head:
        """Of `table`, which it keeps."""
        return cls(table.slice(0, HEAD_ROWS), table.num_rows if is_whole else None)


class Report(str):
    """Text that a prompt shows as it is, and a notebook as a picture when it is one."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return str(self) if self.startswith("<svg") else f"<pre>{escape(str(self))}</pre>"


def explanation(
    reply: pb.ExplainReply, format: Literal["text", "svg"], *, verbose: bool = False
) -> Report:
    """What a coordinator says about a plan, as text or as one SVG."""
    if format == "svg":
        return Report(reply.svg)
    parts = (
        ("plan", reply.plan),
        ("rules", reply.rules_verbose if verbose else reply.rules),
        ("optimised plan", reply.optimised),
        ("stages", reply.stages),
    )
    return Report("\n\n".join(f"{title}\n{_indented(body)}" for title, body in parts))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines())


def frame_text(plan: Plan, schema: pa.Schema) -> str:
    """A frame's columns and plan, for a prompt."""
    columns = ", ".join(f"{field.name}: {field.type}" for field in schema)
    return f"DataFrame[{columns}]\n{_indented(tree(check(plan).root))}"


def frame_html(plan: Plan, schema: pa.Schema, head: Head | None = None) -> str:
    """The first rows of a frame, as far as they are known, else its columns; and its plan."""
    picture = (
        f"<details><summary>plan</summary><pre>{escape(tree(check(plan).root))}</pre></details>"
    )
    if head is None:
        rows = "".join(
            f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td></tr>"
            for field in schema
        )
        table = f"<table><tr><th>column</th><th>type</th></tr>{rows}</table>"
        return f"<div><b>fabric.DataFrame</b> (not run yet){table}{picture}</div>"
    said = _known_rows(head)
    return f"<div><b>fabric.DataFrame</b> ({said}){_html_table(head.rows)}{picture}</div>"


def _known_rows(head: Head) -> str:
    shown = head.rows.num_rows
    if head.n_rows == shown:
        return _plural(shown, "row")
    if head.n_rows is None:
        return f"first {shown} rows, there are more"
    return f"first {shown} of {head.n_rows:,} rows"


def _html_table(rows: pa.Table) -> str:
    """Names with types above, values below, numbers to the right."""
    columns = [_column(field, rows.column(i)) for i, field in enumerate(rows.schema)]
    sides = ["right" if _is_number(field.type) else "left" for field in rows.schema]
    style = [f' style="text-align:{side}"' for side in sides]
    head = "".join(
        f"<th{s}>{escape(c[0])}<br><small>{escape(c[1])}</small></th>"
        for s, c in zip(style, columns, strict=True)
    )
    lines = zip(*(column[2:] for column in columns), strict=True)
    body = "".join(
        f"<tr>{''.join(f'<td{s}>{escape(v)}</td>' for s, v in zip(style, line, strict=True))}</tr>"
        for line in lines
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def text_table(rows: pa.Table, n: int, width: int | None = None) -> str:
    """The first `n` rows in a frame and how many there are; columns that don't fit are named."""
    shown = rows.slice(0, n)
    columns = [_column(field, shown.column(i)) for i, field in enumerate(rows.schema)]
    kept = _fitting(columns, width or shutil.get_terminal_size((120, 24)).columns)
    lines = _frame(kept, [_is_number(field.type) for field in rows.schema])
    more = rows.num_rows > n
    tail = f"first {n} rows, there are more" if more else _plural(rows.num_rows, "row")
    if len(kept) < len(columns):
        hidden = ", ".join(rows.schema.names[len(kept) :])
        tail += f"; {_plural(len(columns) - len(kept), 'column')} not shown: {hidden[:200]}"
    return "\n".join([*lines, tail])


def _is_number(dtype: pa.DataType) -> bool:
    return bool(types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype))


def _plural(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _column(field: pa.Field, values: pa.ChunkedArray) -> list[str]:
    return [_cut(field.name), _cut(str(field.type)), *(_cell(v) for v in values.to_pylist())]


def _cell(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _float(value)
        case _:
            return _cut(str(value))


def _float(value: float) -> str:
    """At most six decimals; very small and very large ones with an exponent."""
    if value and not 1e-4 <= abs(value) < 1e15:
        return f"{value:.6g}"
    text = f"{value:.6f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def _cut(text: str) -> str:
    plain = "".join(c if c.isprintable() else "·" for c in text[: _CELL_MAX + 1])
    if _width(plain) <= _CELL_MAX and len(text) <= _CELL_MAX:
        return plain
    while _width(plain) > _CELL_MAX - 1:
        plain = plain[:-1]
    return plain + "…"


def _width(text: str) -> int:
    """The columns of a terminal that `text` takes: East Asian characters and emoji take two.

    >>> _width("abc"), _width("東京"), _width("e\u0301")
    (3, 4, 1)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # for start-up time: few texts are wide

    return cell_len(text)


def _padded(cell: str, width: int, flush: bool) -> str:
    """`cell` in that many columns, at the right if `flush`."""
    room = " " * (width - _width(cell))
    return room + cell if flush else cell + room


def _fitting(columns: list[list[str]], width: int) -> list[list[str]]:
    """As many columns from the left as `width` holds, at least one."""
    used, kept = 1, 0
    for column in columns:
        used += max(map(_width, column)) + 3
        if used > width and kept:
            break
        kept += 1
    return columns[:kept]


def _frame(columns: list[list[str]], right: list[bool]) -> list[str]:
    widths = [max(map(_width, column)) for column in columns]
    top, middle, bottom = (
        ends[0] + ends[1].join("─" * (width + 2) for width in widths) + ends[2] for ends in _LINES
    )
    body = [
        "│ "
        + " │ ".join(
            _padded(cell, width, flush)
            for cell, width, flush in zip(row, widths, right, strict=False)
        )
        + " │"
        for row in zip(*columns, strict=True)
    ]
    return [top, *body[:2], middle, *body[2:], bottom]
