"""Float columns of whole Parquet files, which DataFusion reads by itself."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import fabric
from fabric import col


def test_a_column_of_one_value_keeps_its_nan(tmp_path: Path) -> None:
    """Its statistics leave NaN out, so least and greatest are the same."""
    path = tmp_path / "floats.parquet"
    pq.write_table(pa.table({"a": [1.0, 1.0, math.nan]}), path)
    frame = fabric.read_parquet(path)
    assert str(frame.collect()["a"].to_pylist()) == "[1.0, 1.0, nan]"
    assert frame.filter(col("a") > 1).count() == 1
    assert frame.filter(col("a").is_nan()).count() == 1
