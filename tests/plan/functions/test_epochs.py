"""Types of arithmetic with times."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import PlanError
from fabric.plan.functions import signature

SPAN, MS = pa.duration("us"), pa.duration("ms")
UTC, NAIVE, DAY = pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()
NEW_YORK = pa.timestamp("ns", "America/New_York")


@pytest.mark.parametrize(
    ("name", "types", "args", "result"),
    [
        ("subtract", [UTC, UTC], (UTC, UTC), SPAN),
        ("subtract", [NAIVE, NAIVE], (NAIVE, NAIVE), SPAN),
        ("subtract", [NAIVE, UTC], (UTC, UTC), SPAN),
        ("subtract", [DAY, DAY], (UTC, UTC), SPAN),
        ("subtract", [NAIVE, pa.null()], (UTC, UTC), SPAN),
        ("add", [NEW_YORK, MS], (pa.timestamp("us", "America/New_York"), SPAN),
         pa.timestamp("us", "America/New_York")),
        ("add", [SPAN, NAIVE], (SPAN, NAIVE), NAIVE),
        ("subtract", [DAY, SPAN], (UTC, SPAN), DAY),
        ("add", [SPAN, DAY], (SPAN, UTC), DAY),
        ("add", [SPAN, MS], (SPAN, SPAN), SPAN),
        ("multiply", [pa.int8(), MS], (pa.int64(), SPAN), SPAN),
        ("negate", [MS], (SPAN,), SPAN),
        ("total_hours", [MS], (SPAN,), pa.int64()),
    ],
)  # fmt: skip
def test_types(
    name: str, types: list[pa.DataType], args: tuple[pa.DataType, ...], result: pa.DataType
) -> None:
    found = signature(name, types)
    assert (found.args, found.result) == (args, result)


@pytest.mark.parametrize(
    ("name", "types"),
    [("add", [UTC, UTC]), ("add", [DAY, pa.int32()]), ("subtract", [SPAN, UTC]), ("negate", [UTC]),
     ("multiply", [SPAN, pa.float64()]), ("divide", [SPAN, pa.int32()]),
     ("add", [SPAN, pa.int32()]),
     ("total_days", [pa.int64()])],
)  # fmt: skip
def test_refusals(name: str, types: list[pa.DataType]) -> None:
    with pytest.raises(PlanError, match=f"{name} takes "):
        signature(name, types)
