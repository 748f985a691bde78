"""The command line in this process: help, versions, files, errors and their exit codes."""

from __future__ import annotations

import io
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import fabric
from fabric.clients.cli import doctor
from fabric.clients.cli.main import main
from fabric.clients.dataframe import session as sessions
from fabric.clients.spark import session as spark_session

Captured = pytest.CaptureFixture[str]
HEAD = (
    'import sys\nimport fabric\nfrom fabric import col\nrows = fabric.DataFrame({"a": [1, 2, 3]})\n'
)


@pytest.fixture
def no_sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a program's first line, though tests before this one may have sessions open."""
    with monkeypatch.context() as patched:
        patched.setattr(sessions, "_open", [])
        yield
        sessions.close_all()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "job.py"


def test_help_names_every_command(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for command in ("up", "agent", "coordinator", "run", "jobs", "explain", "doctor", "demo"):
        assert f"\n  {command} " in out


def test_version(capsys: Captured) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"fabric {fabric.__version__}\n"


@pytest.mark.parametrize("wrong", [["nope"], ["run"], ["up", "--agents", "0"], ["explain", "--x"]])
def test_wrong_usage_is_2(wrong: list[str], capsys: Captured) -> None:
    assert main(wrong) == 2
    assert "Error:" in capsys.readouterr().err


def test_run_shows_df(file: Path, capsys: Captured) -> None:
    file.write_text(HEAD + 'df = rows.filter(col("a") > 1)\n')
    assert main(["run", str(file)]) == 0
    assert capsys.readouterr().out.endswith("2 rows\n")


def test_run_calls_main_with_arguments(file: Path, capsys: Captured) -> None:
    file.write_text(
        HEAD + "def main():\n    print(sys.argv[1:], __name__)\n    return rows\n"
        'if __name__ == "__main__":\n    main()\n'
    )
    assert main(["run", "--rows", "2", str(file), "--rows", "x"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("['--rows', 'x'] __fabric__\n")
    assert out.endswith("first 2 rows, there are more\n")


def test_run_a_plain_script(file: Path, capsys: Captured) -> None:
    file.write_text(HEAD + "print(rows.count())\n")
    assert main(["run", str(file)]) == 0
    assert capsys.readouterr().out == "3\n"


SCRIPT = """
import fabric
rows = fabric.DataFrame({"a": [1, 2]})
if __name__ == "__main__":
    rows.show()
"""


def test_a_script_is_run_once_as_python_does(file: Path, capsys: Captured) -> None:
    file.write_text(SCRIPT)
    assert main(["run", str(file)]) == 0
    assert capsys.readouterr().out.count("2 rows") == 1


def test_ctrl_c_says_that_it_stopped(file: Path, capsys: Captured) -> None:
    file.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main(["run", str(file)]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "fabric: stopped\n"


@pytest.mark.usefixtures("no_sessions")
def test_explain_takes_the_last_frame(file: Path, capsys: Captured) -> None:
    file.write_text(SCRIPT)
    assert main(["explain", str(file)]) == 0
    out = capsys.readouterr().out
    assert "DataFrame(2 rows)" in out
    assert "\n2 rows" not in out  # nothing ran


ACTIONS = (
    "rows.collect()", "rows.show()", "rows.count()", "rows.to_pandas()", "rows.to_dicts()",
    "next(rows.iter_batches())", "rows.submit().wait()", "rows.session.submit(rows).wait()",
    'rows.write_parquet("FOLDER/out")', 'rows.write_csv("FOLDER/out.csv", wait=False)',
    'rows.write_dataset("d")', 'fabric.streams.generator().write_stream("FOLDER/out")',
    'rows.collect(engine="spark")', '__import__("duckdb").sql("from rows").fetchall()',
    '__import__("polars").DataFrame(rows)', '__import__("pyarrow").table(rows)',
    '__import__("concurrent.futures").futures.ThreadPoolExecutor(1).submit(rows.collect).result()',
)  # fmt: skip


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.usefixtures("no_sessions")
def test_explain_runs_no_action(file: Path, capsys: Captured, action: str, named: bool) -> None:
    action = action.replace("FOLDER", str(file.parent))
    df = 'df = rows.group_by("a").count().named("by_a")' if named else "pass"
    file.write_text(
        HEAD.replace("rows =", "print('begins')\nrows =", 1)
        + f"{df}\ntry:\n    found = {action}\nexcept Exception:\n    pass\nprint('after')\n"
    )
    before = sorted(file.parent.iterdir())
    code = main(["explain", str(file)])
    told = capsys.readouterr()
    assert "after" not in told.out
    assert f"{file} line {HEAD.count(chr(10)) + 4} would run" in told.err
    assert "nothing was run" in told.err
    assert sorted(file.parent.iterdir()) == before
    assert code == 0
    wanted = "generator" if "generator" in action else "DataFrame("
    assert ("by_a" if named else wanted) in told.out
    assert fabric.from_dict({"a": [1]}).collect().num_rows == 1  # later it runs again


@pytest.mark.usefixtures("no_sessions")
@pytest.mark.parametrize("named", [True, False])
def test_explain_prints_no_traceback_of_a_thread(file: Path, capsys: Captured, named: bool) -> None:
    df = 'df = rows.group_by("a").count().named("by_a")' if named else "pass"
    begin = "t = threading.Thread(target=lambda: rows.filter(col('a') > 5).collect())\n"
    file.write_text(f"import threading\n{HEAD}{df}\n{begin}t.start()\nt.join()\ndel rows\n")
    assert main(["explain", str(file)]) == 0
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        f"a thread of {file} would run {'something' if named else 'what is shown'}; nothing was run"
    ]
    assert ("by_a" if named else "filter_1") in told.out


def test_explain_changes_nothing_else(file: Path, capsys: Captured) -> None:
    with fabric.connect() as session:
        job = session.read_arrow({"a": [1]}).write_dataset("kept")
        file.write_text(
            "import fabric\nfrom fabric.clients.dataframe.session import default_session\n"
            'session = default_session()\nsession.drop_dataset("kept")\n'
            f'session.drain("agent-1")\njob = session.job("{job.id}")\n'
            "job.release()\njob.restart().cancel()\n"
            'df = session.read_dataset("kept").limit(1)\n'
        )
        assert main(["explain", str(file)]) == 0
        told = capsys.readouterr()
        assert [line for line in told.err.splitlines() if line.startswith("not done: ")] == [
            "not done: drop_dataset('kept')", "not done: drain('agent-1')",
            f"not done: release of {job.id}", f"not done: restart of {job.id}",
            f"not done: cancel of {job.id}",
        ]  # fmt: skip
        assert "limit_1" in told.out
        assert session.datasets() == ["kept"]
        assert session.job(job.id).state == "finished"


def test_explain_looks_at_a_plan_where_it_would_have_run(file: Path, capsys: Captured) -> None:
    file.write_text(
        "import fabric\ndef main():\n    with fabric.connect(parallelism=3) as session:\n"
        '        session.read_arrow({"k": [1, 2]}).group_by("k").count().write_parquet("/x/y")\n'
    )
    before = list(sessions._open)
    assert main(["explain", str(file)]) == 1
    assert "there is no folder /x to write y in" in capsys.readouterr().err
    file.write_text(file.read_text().replace('write_parquet("/x/y")', "collect()"))
    assert main(["explain", str(file)]) == 0
    told = capsys.readouterr()
    assert "line 4 would run what is shown" in told.err
    assert "3 tasks" in told.out
    assert sessions._open == before


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('rows.filter(col("b") > 1)\n', 'job.py line 5: there is no column "b"'),
        ("{}['x']\n", "UserError: {file} line 5: KeyError: 'x'"),
        ("def f(:\n", "line 5: SyntaxError"),
        ('df = rows.select(x=col("a") // (col("a") - col("a")))\n', "ExpressionError"),
    ],
)
def test_errors_are_one_line_with_the_place(
    file: Path, line: str, says: str, capsys: Captured
) -> None:
    file.write_text(HEAD + line)
    assert main(["run", str(file)]) == 1
    err = capsys.readouterr().err
    assert says.format(file=file) in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_debug_shows_the_traceback_wherever_it_stands(file: Path, capsys: Captured) -> None:
    file.write_text(HEAD + 'rows.select("b")\n')
    for arguments in (["--debug", "run", str(file)], ["run", "--debug", str(file)]):
        assert main(arguments) == 1
        assert "Traceback" in capsys.readouterr().err


def test_missing_file_and_missing_frame(file: Path, capsys: Captured) -> None:
    assert main(["run", "no_such.py"]) == 1
    assert "there is no file no_such.py" in capsys.readouterr().err
    file.write_text("x = 1\n")
    assert main(["explain", str(file)]) == 1
    assert "leaves no DataFrame, and has no main()" in capsys.readouterr().err


def test_explain(file: Path, tmp_path: Path, capsys: Captured) -> None:
    file.write_text(HEAD + 'plan = rows.group_by("a").count().named("by_a")\n')
    assert main(["explain", str(file)]) == 0
    assert "by_a" in capsys.readouterr().out
    assert main(["explain", str(file), "--format", "svg", "-o", str(tmp_path / "plan.svg")]) == 0
    assert (tmp_path / "plan.svg").read_text().startswith("<svg")
    assert main(["explain", str(file), "--format", "png"]) == 2


def test_jobs_without_token_or_fabric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("FABRIC_HOME", str(tmp_path))
    monkeypatch.delenv("FABRIC_TOKEN", raising=False)
    assert main(["jobs"]) == 1
    assert "FABRIC_TOKEN is not set" in capsys.readouterr().err
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"fabric://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr("sys.stdin", io.StringIO("x\n"))
        assert main(["jobs", "--connect", address, "--token", "-"]) == 1
    assert "PeerLostError" in capsys.readouterr().err


def test_an_occupied_port_is_refused_before_anything_starts(
    tmp_path: Path, capsys: Captured
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for command in ("up", "coordinator"):
            assert main([command, "--port", str(port), "--home", str(tmp_path / "home")]) == 1
            assert f"port {port}" in capsys.readouterr().err
    assert main(["coordinator", "--host", "0.0.0.0", "--home", str(tmp_path / "home")]) == 1
    assert "without TLS" in capsys.readouterr().err


def test_doctor_here(tmp_path: Path, capsys: Captured) -> None:
    assert main(["doctor", "--home", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "pyarrow 25." in out
    assert "kernels use " in out
    assert "✓ confluent-kafka 2.16.0 with librdkafka 2.16.0: columns, no GIL" in out
    assert "✗" not in out


def test_doctor_finds_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o644)
    tmp_path.chmod(0o770)
    versions = {"fabric": "3.2", "pyarrow": "24.0.0", "datafusion": None, "pyspark": None}
    versions["confluent-kafka"] = None
    real = doctor.version_of
    monkeypatch.setattr(doctor, "version_of", lambda name: versions.get(name, real(name)))
    monkeypatch.setattr(spark_session, "java_major", lambda: 11)
    assert main(["doctor", "--home", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "✗ the SSH tool fabric 3.2 is installed too" in out
    assert "✗ pyarrow 24.0.0 is installed; Fabric was built for 25.0.x: pip install" in out
    assert "✗ datafusion is missing" in out
    assert "! confluent-kafka is missing; for Kafka: pip install 'flight-fabric[kafka]'" in out
    assert "! Java 11 is too old for Spark" in out
    assert "✗ others can read" in out
    assert f"run: chmod go-w {tmp_path}" in out
