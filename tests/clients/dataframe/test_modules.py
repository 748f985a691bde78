"""``fabric.functions`` and ``fabric.selectors``: imported as any module, typos told."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fabric
from fabric import DataFrame, col, when
from fabric.errors import PlanError


@pytest.mark.parametrize("name", ["functions", "selectors"])
def test_it_is_imported_in_every_way(name: str) -> None:
    code = (
        f"import fabric.{name} as one; from fabric import {name} as two; import fabric; "
        f"assert one is two is fabric.{name}, (one, two)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_typos() -> None:
    with pytest.raises(AttributeError, match=r"functions has no 'uper'; did you mean 'upper'"):
        _ = fabric.functions.uper  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no 'numerics'; did you mean 'numeric'"):
        _ = fabric.selectors.numerics  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"count\(\) got .*'colum'; did you mean column="):
        fabric.functions.count(colum="x")  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"when\(\.\.\.\) has no .* 'than'; did .*\.then"):
        when(col("b")).than(1)  # type: ignore[attr-defined]
    with pytest.raises(PlanError, match=r'did you mean "st\.ab".*write: \.select\(col\("st"\)'):
        DataFrame({"st": [{"ab": 1}]}).select(col("st.abb"))


def test_helpers_are_not_functions_of_ours() -> None:
    names = ("as_column", "call", "to_dtype", "to_literal")
    assert not [name for name in names if hasattr(fabric.functions, name)]
