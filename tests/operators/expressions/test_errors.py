"""Errors of Arrow and DataFusion become Fabric's."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pytest

from fabric.errors import (
    CancelledError,
    DataError,
    ExpressionError,
    FabricError,
    InternalError,
    StorageError,
)
from fabric.operators.expressions.errors import as_fabric


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("divide by zero", ExpressionError, "division by zero"),
        ("Arrow error: Divide by zero error", ExpressionError, "division by zero"),
        ("overflow", ExpressionError, "overflow"),
        ("Integer value 300 not in range: -128 to 127", ExpressionError, "overflow"),
        ("Decimal value does not fit in precision 5", ExpressionError, "decimal overflow"),
        ("Failed to parse string: 'x' as int", ExpressionError, "a value can't be cast"),
        ("something else\nTraceback ...", InternalError, "ArrowInvalid: something else"),
    ],
)
def test_arrow_errors(text: str, kind: type[FabricError], message: str) -> None:
    found = as_fabric(pa.ArrowInvalid(text))
    assert type(found) is kind
    assert found.message == message


@pytest.mark.parametrize(
    "error",
    [
        ExpressionError("overflow in col(\"a\") + lit('it''s \"x\"')"),
        DataError('the file it\'s \\ "there" ends early'),
        StorageError("disk is full"),
    ],
)
def test_our_errors_pass_through_datafusion(error: FabricError) -> None:
    def fail(_: pa.Array) -> pa.Array:
        raise error

    function = datafusion.udf(fail, [pa.int64()], pa.int64(), "volatile", "fail")
    frame = (
        datafusion.SessionContext().from_pydict({"a": [1]}).select(function(datafusion.col("a")))
    )
    with pytest.raises(Exception, match=r"full|ends|overflow") as caught:
        frame.to_arrow_table()
    found = as_fabric(caught.value)
    assert type(found) is type(error)
    assert found.message == error.message


def test_own_and_interrupts() -> None:
    error = ExpressionError("x")
    assert as_fabric(error) is error
    assert isinstance(as_fabric(KeyboardInterrupt()), CancelledError)
    assert isinstance(as_fabric(pa.ArrowCancelled("stop")), CancelledError)
