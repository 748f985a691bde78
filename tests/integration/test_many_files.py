"""Folders of very many small files: a hundred thousand in soaks."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import col

N_FILES = 100_000 if os.environ.get("FABRIC_SOAK") else 1_500


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_folder_of_many_files(format: str, tmp_path: Path) -> None:
    for number in range(N_FILES):
        path = tmp_path / f"{number:06d}.{format}"
        if format == "csv":
            path.write_text(f"n,s\n{number},x\n{number},y\n")
        else:
            pq.write_table(pa.table({"n": [number] * 2, "s": ["x", "y"]}), path)
    read = getattr(fabric, f"read_{format}")
    half = read(tmp_path).filter(col("s") == "y").agg(n=fabric.sum("n"), rows=fabric.count())
    assert half.to_dicts() == [{"n": N_FILES * (N_FILES - 1) // 2, "rows": N_FILES}]
