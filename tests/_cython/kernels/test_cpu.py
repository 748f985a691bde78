from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fabric._cython.kernels.cpu import cpu_path, cpu_paths, set_cpu_path

SHOW = "from fabric._cython.kernels.cpu import cpu_path; print(cpu_path())"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    merged = {**os.environ, **environment}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=merged, capture_output=True, text=True, check=False)


def test_scalar_is_always_there() -> None:
    assert cpu_paths()[0] == "scalar"
    assert cpu_path() in cpu_paths()


def test_setting_a_path_takes_effect(forced_cpu: str) -> None:
    assert cpu_path() == forced_cpu


def test_refuses_an_unknown_path() -> None:
    before = cpu_path()
    with pytest.raises(ValueError, match="no CPU path 'mmx'; it has scalar"):
        set_cpu_path("mmx")
    assert cpu_path() == before


@pytest.mark.parametrize("name", cpu_paths())
def test_environment_forces_a_path(name: str) -> None:
    assert run(SHOW, FABRIC_CPU=name).stdout.strip() == name


def test_a_wrong_environment_is_named() -> None:
    answer = run(SHOW, FABRIC_CPU="abacus")
    assert answer.returncode != 0
    assert "no CPU path 'abacus'" in answer.stderr
