"""The tables of TPC-H as Parquet files, made once by `tpchgen-cli`.

One job: `folder` of a scale factor, and frames over it. Parquet is what all engines read natively.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.made import made
from fabric import DataFrame

TABLES = ("lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region")


@dataclass(frozen=True, slots=True)
class Tables:
    """A frame for each table."""

    lineitem: DataFrame
    orders: DataFrame
    partsupp: DataFrame
    part: DataFrame
    customer: DataFrame
    supplier: DataFrame
    nation: DataFrame
    region: DataFrame


def folder(scale: float) -> Path:
    """Where the tables of `scale` lie; made when they are not there."""

    def write(folder: Path) -> None:
        subprocess.run(
            [_generator(), "parquet", "-s", f"{scale:g}", f"--output-dir={folder}"],
            check=True,
            capture_output=True,
        )

    return made("tpch", f"sf-{scale:g}", write)


def _generator() -> str:
    """The program: beside this Python, or on the path."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    found = str(beside) if beside.exists() else shutil.which("tpchgen-cli")
    if found is None:
        raise FileNotFoundError("tpchgen-cli is missing: pip install tpchgen-cli")
    return found


def frames(session: Any, scale: float) -> Tables:
    """A frame for each table, read by `session` (or the module `fabric` for the default one)."""
    files = folder(scale)
    tables = {name: session.read_parquet(files / f"{name}.parquet") for name in TABLES}
    return Tables(**tables)
