"""The tables of TPC-H as Parquet files, made once by `tpchgen-cli`.

One job: `folder` of a scale factor, the same for Daft, and frames over it. Parquet is what all
engines read natively.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.made import made
from fabric import DataFrame

TABLES = ("lineitem", "orders", "partsupp", "part", "customer", "supplier", "nation", "region")

_TAIL = 8
"""Bytes behind a Parquet file's footer: its size, and the magic word."""
_SCHEMA = b"ARROW:schema"


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


def plain_folder(scale: float) -> Path:
    """The same files without Arrow's schema, whose string views Daft can't read.

    Only the name under which the footer holds it is another one: data and layout are the same.
    """
    files = folder(scale)

    def write(folder: Path) -> None:
        for name in TABLES:
            target = folder / f"{name}.parquet"
            shutil.copyfile(files / target.name, target)
            with target.open("r+b") as file:
                file.seek(-_TAIL, os.SEEK_END)
                size = int.from_bytes(file.read(4), "little")
                file.seek(-_TAIL - size, os.SEEK_END)
                footer = file.read(size).replace(_SCHEMA, _SCHEMA.lower())
                file.seek(-_TAIL - size, os.SEEK_END)
                file.write(footer)

    return made("tpch", f"sf-{scale:g}-plain", write)


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
