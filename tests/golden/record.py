"""Ask a live Spark for the answers of the golden table and write them down.

``python tests/golden/record.py [name ...]`` fills in the answers and error conditions of the given
files (all by default); a changed answer is printed. Add a case by writing its expression with an
empty answer: ``["add(c.a, 1)", "", []]`` or ``["divide(c.a, 0)", [0], ""]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from golden_expressions import FOLDER, array, dtype_name, encoded, expression, some_rows
from golden_spark import ask, condition, start


def record(spark: Any, path: Path) -> None:
    """Rewrite one file."""
    data = json.loads(path.read_text("utf-8"))
    batch = load_columns(data)
    exprs = [expression(case[0]) for case in data["answers"]]
    for case, values in zip(data["answers"], answers(spark, batch, exprs), strict=True):
        if isinstance(values, str):
            print(f"{path.stem}: {case[0]}: {values}")
            continue
        new = [dtype_name(values.type), encoded(values)]
        if case[1:] != new and case[2]:
            print(f"{path.stem}: {case[0]}: {case[1:]} is now {new}")
        case[1:] = new
    for case in data["errors"]:
        rows = some_rows(batch, case[1])
        found = condition(spark, rows, expression(case[0]))
        if case[2] and case[2] != found:
            print(f"{path.stem}: {case[0]}: {case[2]} is now {found or 'no error'}")
        case[2] = found
    path.write_text(dump(data), "utf-8")


def answers(spark: Any, batch: Any, exprs: list[Any]) -> list[Any]:
    """The values of each expression, or what Spark says against it; all at once if that works."""
    try:
        return ask(spark, batch, exprs)
    except Exception as error:
        if len(exprs) == 1:
            return [f"{type(error).__name__} {str(error)[:200]}"]
    middle = len(exprs) // 2
    return [*answers(spark, batch, exprs[:middle]), *answers(spark, batch, exprs[middle:])]


def load_columns(data: dict[str, Any]) -> Any:
    """The columns of a file as a batch."""
    import pyarrow as pa

    return pa.record_batch({name: array(*column) for name, column in data["columns"].items()})


def dump(data: dict[str, Any]) -> str:
    """JSON with a case a line."""
    lines = ["{", f'  "about": {json.dumps(data["about"])},', '  "columns": {']
    columns = [
        f"    {json.dumps(name)}: {_line(column)}" for name, column in data["columns"].items()
    ]
    lines += [",\n".join(columns), "  },"]
    for key, end in (("answers", ","), ("errors", "")):
        cases = ",\n".join(f"    {_line(case)}" for case in data[key])
        lines += [f'  "{key}": [', *([cases] if cases else []), f"  ]{end}"]
    return "\n".join([*lines, "}", ""])


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    names = sys.argv[1:] or [path.stem for path in sorted(FOLDER.glob("*.json"))]
    session = start()
    for name in names:
        record(session, FOLDER / f"{name}.json")
    session.stop()
