"""The gRPC whose shapes are declared by hand is that of the installed wheel; others are refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fabric._cython.abi import BUILT_FOR
from fabric._cython.shuffle.grpc.abi import check_grpc, installed_grpc, known_grpc

SERVER = "fabric._cython.shuffle.flight.server"
ADVICE = f"pip install 'pyarrow=={BUILT_FOR}.*'"


def in_a_new_process(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout


def test_the_installed_wheel_is_known() -> None:
    assert installed_grpc() == known_grpc()
    check_grpc(installed_grpc())


@pytest.mark.parametrize("version", ["46.0.0", "52.0.0", "51.0.1"])
def test_another_version_is_refused_by_name(version: str) -> None:
    with pytest.raises(ImportError) as refused:
        check_grpc(version)
    assert f"brings gRPC core {version};" in str(refused.value)
    assert f"built for gRPC core {known_grpc()}: {ADVICE}" in str(refused.value)


def test_a_wheel_that_tells_no_version_is_refused() -> None:
    with pytest.raises(ImportError, match="brings a gRPC that tells no version"):
        check_grpc("")


def test_the_server_is_not_imported_with_another_one() -> None:
    said = in_a_new_process(
        "from fabric._cython.shuffle.grpc import abi\n"
        "abi.installed_grpc = lambda: '46.0.0'\n"
        "try:\n"
        f"    import {SERVER}\n"
        "except ImportError as refused:\n"
        "    print(refused)\n"
    )
    assert "46.0.0" in said
    assert known_grpc() in said
    assert ADVICE in said


def test_nobody_asks_who_needs_no_server() -> None:
    said = in_a_new_process(
        "import sys\n"
        "import fabric._cython.shuffle.store.store\n"
        "import fabric._cython.shuffle.pump.pump\n"
        "print('fabric._cython.shuffle.grpc.abi' in sys.modules)\n"
    )
    assert said.strip() == "False"
