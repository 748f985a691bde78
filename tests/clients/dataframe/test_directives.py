"""strftime directives as Spark patterns."""

from __future__ import annotations

import pytest

from fabric.clients.dataframe.directives import spark_pattern
from fabric.errors import PlanError


@pytest.mark.parametrize(
    ("format", "pattern"),
    [("%Y-%m-%dT%H:%M:%S.%6f", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"), ("it's %e", "'it''s 'd"),
     ("100%%", "100%"), ("[%p]", "'['a']'"), ("", "")],
)  # fmt: skip
def test_patterns(format: str, pattern: str) -> None:
    assert spark_pattern(format) == pattern


@pytest.mark.parametrize("format", ["%Q", "%-d", "%"])
def test_refusals(format: str) -> None:
    with pytest.raises(PlanError, match="strftime knows no '%"):
        spark_pattern(format)
