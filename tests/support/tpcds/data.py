"""The tables of TPC-DS and DuckDB's answers, made once in an environment of their own.

One job: `folder`, and frames over it. DuckDB's extension loads into one version of DuckDB alone,
which need not be the one that other tests compare with.
"""

from __future__ import annotations

import shutil
import sys
import venv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.made import made
from fabric import DataFrame
from tests.support.foreign import digest, run
from tests.support.tpcds import make

_ROOT = Path(__file__).parents[3]
_LOCK = _ROOT / "requirements" / "tpcds.lock"


class Tables:
    """A frame for each table, by its name: ``t.store_sales``."""

    def __init__(self, session: Any, files: Path) -> None:
        self._session, self._files = session, files

    def __getattr__(self, name: str) -> DataFrame:
        frame: DataFrame = self._session.read_parquet(self._files / f"{name}.parquet")
        return frame


def folder(scale: float, questions: list[int]) -> Path:
    """Where the tables and the answers lie; made when they are not there."""

    def write(folder: Path) -> None:
        home = folder / "environment"
        venv.create(home, with_pip=False, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--python", str(home), "install", "--quiet"]
        run([*pip, "--disable-pip-version-check", "--require-hashes", "-r", str(_LOCK)])
        numbers = [str(number) for number in questions]
        run([str(home / "bin" / "python"), make.__file__, str(folder), f"{scale:g}", *numbers])
        shutil.rmtree(home)

    return made("tpcds", f"sf-{scale:g}-{digest(Path(make.__file__), *map(str, questions))}", write)


def answer(files: Path, number: int) -> pa.Table:
    """DuckDB's answer to a question."""
    return pq.read_table(files / f"q{number}.parquet")
