"""strftime directives as Spark patterns."""

from __future__ import annotations

import pytest

from fabric.clients.dataframe.methods.directives import reading_pattern, spark_pattern
from fabric.errors import PlanError


@pytest.mark.parametrize(
    ("format", "pattern"),
    [("%Y-%m-%dT%H:%M:%S.%6f", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"), ("it's %e", "'it''s 'd"),
     ("100%%", "100%"), ("[%p]", "'['a']'"), ("%H%:z", "HHxxx"), ("%S%.3f", "ss.SSS")],
)  # fmt: skip
def test_patterns(format: str, pattern: str) -> None:
    assert spark_pattern(format) == pattern


@pytest.mark.parametrize("format", ["%Q", "%-d", "%y %"])
def test_refusals(format: str) -> None:
    with pytest.raises(PlanError, match="strftime knows no '%"):
        spark_pattern(format)


@pytest.mark.parametrize(
    ("format", "pattern"),
    [("%d/%m/%Y", "d/M/yyyy"), ("%Y%m%d", "yyyyMMdd"), ("%F %T", "yyyy-M-d H:m:s"),
     ("%Y-%m-%dT%H:%M:%S%z", "yyyy-M-d'T'H:m:ssXX"), ("%I%p", "hha")],
)  # fmt: skip
def test_patterns_to_read_by(format: str, pattern: str) -> None:
    assert reading_pattern(format, "to_date") == pattern


@pytest.mark.parametrize(
    ("format", "message"),
    [
        ("yyyy-MM-dd", "has no directive; for a pattern of Spark's use the functions to_date"),
        ("%y", "to_date knows no '%y'"),
        ("%B", "to_date knows no '%B'"),
    ],
)
def test_what_is_not_read(format: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        reading_pattern(format, "to_date")
