"""Tables for people: every value fits, nothing raises, what is hidden is said."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fabric.clients.dataframe.render import Report, explanation, text_table
from fabric.control import control_pb2 as pb


def test_a_table() -> None:
    rows = pa.table({"name": ["Ann", None], "delay": [1.5, float("nan")], "late": [True, False]})
    assert text_table(rows, 5).splitlines() == [
        "┌────────┬────────┬───────┐",
        "│ name   │  delay │ late  │",
        "│ string │ double │ bool  │",
        "├────────┼────────┼───────┤",
        "│ Ann    │    1.5 │ true  │",
        "│ null   │    nan │ false │",
        "└────────┴────────┴───────┘",
        "2 rows",
    ]


def test_more_rows_and_columns_than_fit_are_told() -> None:
    rows = pa.table({f"column_{i}": list(range(4)) for i in range(9)})
    text = text_table(rows, 3, width=40)
    assert max(map(len, text.splitlines()[:-1])) <= 40
    assert text.splitlines()[-1].startswith("first 3 rows, there are more; 6 columns not shown: ")


@given(st.lists(st.tuples(st.text(), st.floats() | st.none()), max_size=5))
def test_every_line_is_as_long(rows: list[tuple[str, float | None]]) -> None:
    table = pa.table({"t": [t for t, _ in rows], "f": pa.array([f for _, f in rows], pa.float64())})
    lines = text_table(table, 10, width=200).split("\n")
    assert len({cell_len(line) for line in lines[:-1]}) == 1
    assert len(lines) == len(rows) + 6


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (336776.0, "336776.0"),
        (1e-9, "1e-09"),
        (1e300, "1e+300"),
        (12.3456789, "12.345679"),
        (-0.5, "-0.5"),
        (float("inf"), "inf"),
        (0.0, "0.0"),
    ],
)
def test_floats(value: float, shown: str) -> None:
    assert f"│ {shown.rjust(6)} │" in text_table(pa.table({"x": [value]}), 1)


def test_no_rows_no_columns() -> None:
    assert text_table(pa.table({"a": pa.array([], pa.int8())}), 3).endswith("0 rows")
    assert text_table(pa.table({}), 3).endswith("0 rows")


def test_reports_show_themselves() -> None:
    reply = pb.ExplainReply(
        plan="scan\n",
        optimised="scan",
        stages="stage 0",
        svg="<svg></svg>",
        rules="none",
        rules_verbose="none at all",
    )
    text = explanation(reply, "text")
    parts = ("plan\n  scan", "rules\n  none", "optimised plan\n  scan", "stages\n  stage 0")
    assert repr(text) == str(text) == "\n\n".join(parts)
    assert "none at all" in explanation(reply, "text", verbose=True)
    assert text._repr_html_().startswith("<pre>plan")
    assert explanation(reply, "svg")._repr_html_() == "<svg></svg>"
    assert Report("a < b")._repr_html_() == "<pre>a &lt; b</pre>"


def test_wide_characters_take_their_columns() -> None:
    names = ["東京", "NYC", "한국어", "e\u0301", "🚀", "日本語" * 20, "c" * 60]
    lines = text_table(pa.table({"城市": names, "n": list(range(7))}), 20, 200).splitlines()[:-1]
    assert len({cell_len(line) for line in lines}) == 1
    assert {line.index("│", 1) for line in lines if line.isascii()} <= {43}
    assert any(line.startswith("│ 日本語日本語日本語日本語日本語日本語日…  │") for line in lines)
    narrow = text_table(pa.table({"a": ["東" * 10], "b": ["京" * 10]}), 20, 40).splitlines()
    assert narrow[-1].endswith("1 column not shown: b")
