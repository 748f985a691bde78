"""Lines left out or mended, beside the parser that sees the same file as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import fabric
from fabric.errors import DataError

RAGGED: list[dict[str, str]] = [{"ragged": "skip"}, {"ragged": "fill"}, {"comment": "#"}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.csv"


def rows(file: Path, **options: Any) -> list[dict[str, Any]]:
    return fabric.read_csv(file, **options).to_dicts()


@pytest.mark.parametrize("options", RAGGED)
def test_a_quote_inside_a_field_is_a_letter(file: Path, options: dict[str, str]) -> None:
    lines = [f"{n},1" for n in range(2_000)]
    lines[1_000] = '27" monitor,1000'
    file.write_text("\n".join(["name,n", *lines, ""]))
    assert fabric.read_csv(file, **options).count() == fabric.read_csv(file).count() == 2_000
    assert rows(file, **options) == rows(file)


def test_a_comment_behind_a_quote_inside_a_field_is_left_out(file: Path) -> None:
    file.write_text('name,n\n27" monitor,1\n#c,9\nx,2\n15" laptop,3\n')
    assert [row["name"] for row in rows(file, comment="#")] == ['27" monitor', "x", '15" laptop']


@pytest.mark.parametrize("options", RAGGED)
def test_an_escaped_escape_does_not_escape_the_quote(file: Path, options: dict[str, str]) -> None:
    file.write_text('a,b\n"C:\\\\",1\n2,3\n4,5\n')
    found = rows(file, escape="\\", **options)
    assert found == rows(file, escape="\\")
    assert found == [{"a": "C:\\", "b": 1}, {"a": "2", "b": 3}, {"a": "4", "b": 5}]


def test_lines_with_quotes_are_cut_and_filled_where_fields_are(file: Path) -> None:
    file.write_text('a,b,c\n5" x,1\n"p,""q",2,3,4" y\n"r\ns"\nt,6"\n')
    assert rows(file, ragged="fill") == [
        {"a": '5" x', "b": "1", "c": None}, {"a": 'p,"q', "b": "2", "c": 3},
        {"a": "r\ns", "b": None, "c": None}, {"a": "t", "b": '6"', "c": None},
    ]  # fmt: skip


QUOTED = st.text('ab"#,\n\r\\', max_size=4).map(lambda text: '"' + text.replace('"', '""') + '"')
FIELDS = st.one_of(QUOTED, st.text('ab"#\\', max_size=4), st.text('a",\n\\', max_size=3))


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(st.tuples(FIELDS, FIELDS), max_size=6),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    escape=st.sampled_from([None, "\\"]),
    options=st.sampled_from(RAGGED),
)
def test_regular_files_are_read_as_they_are_without_options(
    file: Path, lines: list[tuple[str, str]], end: str, escape: str | None, options: dict[str, str]
) -> None:
    text = "".join(f"_{a},{b}{end}" if a[:1] != '"' else f"{a},{b}{end}" for a, b in lines)
    assume("comment" not in options or not any(line[:1] == "#" for line in text.splitlines()))
    file.write_text("p,q" + end + text, newline="")
    try:
        expected = rows(file, escape=escape)
    except DataError:
        assume(False)
    assert rows(file, escape=escape, **options) == expected
