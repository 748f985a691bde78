"""Snippets of Polars mean in Fabric what live Polars answers."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import polars
import pytest
from golden_polars import Snippet, by_fabric, by_polars, difference, snippets

from fabric.plan.patterns import charset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("snippet", snippets(), ids=lambda s: f"{s.file}: {s.text}")
def test_the_same_as_in_polars(snippet: Snippet) -> None:
    theirs = by_polars(snippet.table, snippet.text, ordered=snippet.is_ordered)
    ours = by_fabric(snippet.table, snippet.text, ordered=snippet.is_ordered)
    assert difference(ours, theirs) == ""


@pytest.mark.parametrize(
    "snippet",
    [s for s in snippets() if s.file == "zones" or s.table == "blanks"],
    ids=lambda s: s.text,
)
def test_zones_and_blanks_on_spark(snippet: Snippet, spark: SparkSession) -> None:
    """Rows and types: Spark's own timestamps have no zone."""
    theirs = by_polars(snippet.table, snippet.text)
    assert difference(by_fabric(snippet.table, snippet.text, engine="spark"), theirs) == ""


CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]


@pytest.mark.parametrize("letter", ["w", "d", "s"])
def test_classes_of_unicode_are_those_of_rust(letter: str) -> None:
    """But for characters that this Python's Unicode has not yet."""
    column = polars.Series(CHARACTERS)
    theirs = set(column.filter(column.str.contains(rf"^\{letter}$")))
    found = charset.unicode_escape(letter) or ()
    ours = {chr(code) for low, high in found for code in range(low, high + 1)}
    assert ours <= theirs
    assert all(unicodedata.category(character) == "Cn" for character in theirs - ours)


@pytest.mark.parametrize("character", "kKſsßẞİıςΣσǅᾳ\u0345µéЖ1")
def test_cases_of_unicode_are_those_of_rust(character: str) -> None:
    column = polars.Series(CHARACTERS[:0x20000])
    theirs = set(column.filter(column.str.contains(f"^(?i){character}$")))
    folded = charset.unicode_folded(charset.of(character))
    assert {chr(code) for low, high in folded for code in range(low, high + 1)} == theirs


def test_there_are_enough() -> None:
    assert len(snippets()) >= 250
