"""Which client is used, and why: the gate, the oldest release that passes it, one library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fabric.errors import ConfigError
from fabric.io.kafka import library
from tests.services import sharing
from tests.services.kafka import kafka_broker
from tests.support.oldest_kafka import VERSION, with_oldest_kafka

ROOT = Path(__file__).resolve().parents[3]
FAKE = """
extern "C" {{
int rd_kafka_version() {{ return {number}; }}
const char* rd_kafka_version_str() {{ return "{text}"; }}
}}
"""


def loaded(path: str) -> str:
    """What the gate says of the library at `path`, in a process where nothing is loaded."""
    ask = "import sys; from fabric._cython.kafka.handle import load; print(load(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", ask, path], capture_output=True, check=True)
    return done.stdout.decode().strip()


def fake(folder: Path, number: int, text: str) -> str:
    """A library that says it is that librdkafka, and has nothing else of it."""
    source, path = folder / "fake.cpp", folder / f"{text}.so"
    source.write_text(FAKE.format(number=number, text=text))
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return str(path)


def test_the_installed_one_is_native_and_says_what_it_has() -> None:
    found = library.client()
    assert (found.native, found.reason) == (True, "")
    assert {"ssl", "sasl_plain", "sasl_scram", "sasl_oauthbearer", "lz4", "zstd"} <= found.features
    assert found is library.client()


def test_python_and_fabric_share_one_library() -> None:
    """Two copies would have separate state; the file says which one it is, not its path."""
    library.client()
    text = [line for line in Path("/proc/self/maps").read_text().splitlines() if " r-xp " in line]
    assert len({line.split()[-1] for line in text if "librdkafka" in line}) == 1


def test_what_was_never_run_is_refused_in_a_sentence(tmp_path: Path) -> None:
    import _ctypes

    assert loaded(_ctypes.__file__) == f"no librdkafka was found in {_ctypes.__file__}"
    assert loaded("/nowhere/cimpl.so").startswith("it can't be loaded: /nowhere/cimpl.so")
    for number, text in ((0x010902FF, "1.9.2"), (0x020700FF, "2.7.0"), (0x030000FF, "3.0.0")):
        why = loaded(fake(tmp_path, number, text))
        assert why.startswith(f"it bundles librdkafka {text}, and Fabric needs version 2.8.0")
    why = loaded(fake(tmp_path, 0x021000FF, "2.16.0"))
    assert re.fullmatch(r"its librdkafka lacks (rd_kafka_\w+(, )?){50,}", why)


def test_python_is_used_where_native_code_can_not_be() -> None:
    ask = (
        "from fabric.io.kafka import library; import _ctypes;"
        "found = library.client_of(_ctypes.__file__);"
        "print(found.native, found.Reader.__module__, found.Writer.__module__, found.reason)"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True)
    said = done.stdout.decode()
    assert said.startswith(
        "False fabric.io.kafka.python.reader fabric.io.kafka.python.writer Kafka"
    )
    assert "because of the installed confluent-kafka: no librdkafka was found in" in said


def test_without_confluent_kafka_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(ConfigError, match=r"pip install 'flight-fabric\[kafka\]'"):
        library.extension()


def test_the_oldest_release_holds_to_the_same_tests() -> None:
    kafka_broker()  # theirs, too
    asked = {"PYTEST_XDIST_TESTRUNUID": sharing.RUN_ID, "FABRIC_KAFKA_VERSION": VERSION}
    files = [f"tests/io/kafka/test_{name}.py" for name in ("same_rows", "clients")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    command += ["-k", "asked or same or native and (parts or transaction or positions or zombie)"]
    environment = {**with_oldest_kafka(), **asked}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode()[-6000:]
