"""The main job: real flights from CSV to agents to Spark and back, checked against DuckDB.

One job: the steps in their order. The data and what is asked of it are in `questions.py`, what
Spark does in `spark_steps.py`. Any difference from DuckDB's answer fails the command.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import fabric
from fabric.clients.cli.processes import POLL_S, port_is_free, stop_asked
from fabric.clients.cli.up import LocalProcesses
from fabric.clients.demo import questions, replay
from fabric.clients.demo.checksum import Agreement, checksum
from fabric.clients.demo.output import draw_delays, snippet
from fabric.config import FabricHome
from fabric.errors import ExternalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fabric import DataFrame, Job, Session
    from fabric.clients.demo.topic import Topic

OUT = Path("out/flights")
KEPT = "delays_by_carrier"
N_AGENTS = 2
TWICE = f", each partition to {questions.REPLICAS} agents"
T = TypeVar("T")


def run(
    *,
    keep: bool = False,
    with_spark: bool = True,
    kafka: bool = False,
    servers: str = "",
    out: Path = OUT,
    processes: Callable[..., LocalProcesses] = LocalProcesses,
) -> int:
    """Run the demo; 0 when every answer agrees with DuckDB's.

    `out` gets the CSVs, a picture of the delays, the job graph, Parquet files and logs. `processes`
    says where the coordinator and the agents run. With `kafka`, step 3 reads a topic of the brokers
    at `servers`, or of one that is started.
    """
    with_kafka = kafka or bool(servers)
    if with_kafka:
        from fabric.clients.demo.topic import check

        check(servers)
    console = Console(highlight=False, soft_wrap=True)
    files = questions.unpack(out)
    _clear(out)
    with (
        _topic(console, servers) if with_kafka else nullcontext() as topic,
        _spark(out / "spark.log", with_spark) as spark,
        tempfile.TemporaryDirectory() as home,
    ):
        fabric_ = processes(FabricHome(Path(home)), free_port(), out / "fabric.log")
        return Flights(console, out, files, fabric_, spark, topic=topic).run(keep)


def _clear(out: Path) -> None:
    """Remove results of an earlier run: one may be a folder where this one writes a file."""
    parquet = (out / f"{name}.parquet" for name in (*questions.NAMES, "replay"))
    streams = (out / f"{name}.stream" for name in replay.NAMES)
    aside = (path for name in replay.NAMES for path in out.glob(f".{name}.stream.*"))
    for path in (*parquet, *streams, *aside, out / "fabric.log"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def _topic(console: Console, servers: str) -> Iterator[Topic]:
    """A topic of Kafka; a broker is started before anything else, so that failing costs little."""
    from fabric.clients.demo.topic import new_topic, store

    if not servers:
        console.print(f"starting Apache Kafka; the first time Maven fetches it to {store()}")
    with new_topic(servers) as topic:
        console.print(f"Kafka at {topic.servers} has a new topic, {topic.name}")
        yield topic


@contextmanager
def _spark(log: Path, wanted: bool) -> Iterator[Future[SparkSession] | None]:
    """Spark, which starts meanwhile. No failure waits for its start, nor Ctrl-C for its end: the
    JVM ends when this process has."""
    if not wanted:
        yield None
        return
    spark: Future[SparkSession] = Future()
    Thread(target=_settle, args=(spark, log), name="spark", daemon=True).start()
    try:
        yield spark
    finally:
        interrupted = isinstance(sys.exc_info()[1], KeyboardInterrupt)
        if not interrupted and spark.done() and spark.exception() is None:
            spark.result().stop()


def _settle(spark: Future[SparkSession], log: Path) -> None:
    try:
        from fabric.clients.demo.spark_steps import start

        spark.set_result(start(log))
    except Exception as error:
        spark.set_exception(error)


class Flights:
    """One run of the demo."""

    def __init__(
        self,
        console: Console,
        out: Path,
        files: Mapping[str, Path],
        fabric_: LocalProcesses,
        spark: Future[SparkSession] | None,
        *,
        topic: Topic | None = None,
    ) -> None:
        self._console, self._out, self._fabric, self._spark = console, out, fabric_, spark
        self._topic = topic
        self._files = files
        self._rows = {name: _csv_rows(path) for name, path in files.items()}
        self._agreement = Agreement(console, questions.ask_duckdb(files))

    def run(self, keep: bool) -> int:
        """All steps; 0 when every answer agrees."""
        embedded = self._alone()
        fabric_ = self._fabric
        try:
            fabric_.start(N_AGENTS)
            token, roots = _token(fabric_.home), fabric_.way.roots
            with fabric.connect(fabric_.url, token=token, tls_roots=roots) as session:
                self._load(session)
                jobs = self._on_agents(session, embedded)
                self._stream(session, fabric_)
                self._to_parquet(session, jobs)
                self._show(session, embedded, jobs)
                if keep:
                    self._keep(session, fabric_)
        finally:
            fabric_.stop()
        return 0 if self._agreement.holds else 1

    # ---- steps
    def _alone(self) -> dict[str, pa.Table]:
        """Step 0."""
        size = sum(path.stat().st_size for path in self._files.values())
        self._say(0, f"Fabric alone reads {len(self._files)} CSV files ({size / 1e6:.1f} MB)")
        with fabric.connect() as session:
            tables = _csv_tables(session, self._files)
            answers, seconds = _timed(
                lambda: {name: df.collect() for name, df in questions.ask(tables).items()}
            )
        n_rows = sum(map(self._input_rows, answers))
        self._console.print(f"  both answers: {_rate(n_rows, seconds)}, reading the files included")
        for name, table in answers.items():
            self._print_table(name, table)
            self._agreement.check(f"{name}, embedded", name, table)
        return answers

    def _load(self, session: Session) -> None:
        """Step 1."""
        if self._spark is None:
            self._say(1, f"without Spark: Fabric itself loads the tables onto the agents{TWICE}")
            tables = _csv_tables(session, self._files)
            for name in questions.TABLES:
                self._loaded(name, *_load_one(tables[name], name))
        else:
            from fabric.clients.demo import spark_steps

            spark = self._waited_for_spark()
            self._say(1, f"PySpark types and cleans the CSVs and writes them through Flight{TWICE}")
            for name in questions.TABLES:
                loaded = spark_steps.load(spark, session, name, self._files[name])
                self._loaded(name, *loaded)

    def _loaded(self, name: str, rows: int, seconds: float) -> None:
        keys = ", ".join(questions.KEYS[name])
        self._console.print(f"  {name}: {_rate(rows, seconds)}, hash-partitioned by {keys}")

    def _on_agents(self, session: Session, embedded: Mapping[str, pa.Table]) -> dict[str, Job]:
        """Step 2."""
        self._say(2, f"the same questions as jobs on {N_AGENTS} agent processes")
        tables = {name: session.read_dataset(name) for name in questions.TABLES}
        jobs: dict[str, Job] = {}
        for name, df in questions.ask(tables).items():
            begin = time.perf_counter()
            job = jobs[name] = session.submit(df, name).wait()
            seconds = time.perf_counter() - begin
            self._console.print(f"  {name}: {_rate(self._input_rows(name), seconds)}")
            answer = job.collect()
            self._agreement.check(f"{name}, on agents", name, answer)
            if checksum(answer) != checksum(embedded[name]):
                self._agreement.differ(f"{name}: agents and embedded")
        self._plain_client(session, jobs["delays_by_carrier"])
        return jobs

    def _plain_client(self, session: Session, job: Job) -> None:
        """One partition read by pyarrow.flight alone."""
        from pyarrow import flight

        headers = [(b"authorization", f"Bearer {session.token}".encode())]
        options = flight.FlightCallOptions(headers=headers)
        partition = job.partitions("by_carrier/exchange")[0]
        roots = {"tls_root_certs": session.tls_roots} if session.tls_roots else {}
        with flight.connect(partition.locations[0], **roots) as client:
            table = client.do_get(flight.Ticket(partition.ticket), options).read_all()
        where = "/".join(partition.path)
        self._console.print(
            f"  a plain pyarrow.flight client reads partition {where}: {table.num_rows:,} rows"
        )

    def _stream(self, session: Session, fabric_: LocalProcesses) -> None:
        """Step 3."""
        n_rows = replay.prepare(session, self._files["flights"].absolute(), self._replayed)
        for name, table in replay.ask_duckdb(self._replayed).items():
            self._agreement.expect(name, table)
        way = "as a stream" if self._topic is None else "through Kafka, as a stream"
        self._say(
            3,
            f"the year's {n_rows:,} departures once more, {way} of {replay.SECONDS} s: "
            f"windows of {replay.WINDOW} by schedule, {replay.BOUND} of patience",
        )
        stream = self._flights_again(session, n_rows)
        newest = fabric_.add_agent()
        self._console.print(f"  {newest} joins: one split an origin, one task each on three agents")
        done = replay.replay(session, stream, self._out.absolute(), fabric_.kill_newest)
        windows, late = (done.answers[name].num_rows for name in replay.NAMES)
        self._console.print(
            f"  {newest} was killed behind checkpoint {done.checkpoint}; all went on from there on "
            f"two agents, and the next checkpoint was complete {done.recovered_s:.2f} s later"
        )
        self._console.print(
            f"  {_rate(n_rows, done.seconds)}: {windows:,} windows, "
            f"{late:,} rows ({late / n_rows:.1%}) came too late for theirs and went aside"
        )
        for name, table in done.answers.items():
            self._agreement.check(f"{name}, from the stream", name, table)

    def _flights_again(self, session: Session, n_rows: int) -> DataFrame:
        """The stream of step 3; with Kafka its topic is filled first, by a job of its own."""
        if (topic := self._topic) is None:
            return replay.from_file(session, self._replayed)
        _, seconds = _timed(lambda: topic.fill(session, self._replayed))
        self._console.print(
            f"  written exactly once, a partition an origin: {_rate(n_rows, seconds)}"
        )
        return topic.stream(session, self._replayed)

    @property
    def _replayed(self) -> Path:
        """The departures as the stream has them."""
        return self._out.absolute() / "replay.parquet"

    def _to_parquet(self, session: Session, jobs: Mapping[str, Job]) -> None:
        """Step 4."""
        if self._spark is None:
            self._say(4, "without Spark: the agents write both results as Parquet")
            tables = {name: session.read_dataset(name) for name in questions.TABLES}
            for name, df in questions.ask(tables).items():
                folder = self._out / f"{name}.parquet"
                df.write_parquet(str(folder.absolute()), mode="overwrite")
                self._written(name, folder, "Fabric's Parquet")
            return
        from fabric.clients.demo import spark_steps

        spark = self._waited_for_spark()
        self._say(4, "PySpark reads both results back through Flight and writes Parquet")
        for name, job in jobs.items():
            folder = self._out / f"{name}.parquet"
            spark_steps.read_back(spark, session, job, folder)
            self._written(name, folder, "Spark's Parquet")

    def _written(self, name: str, folder: Path, what: str) -> None:
        table = pq.read_table(folder)
        self._console.print(f"  {folder}: {table.num_rows:,} rows")
        self._agreement.check(f"{name}, from {what}", name, table)

    def _show(
        self, session: Session, answers: Mapping[str, pa.Table], jobs: Mapping[str, Job]
    ) -> None:
        """Step 5."""
        self._say(5, "the plan, what it did, and the pictures")
        tables = {name: session.read_dataset(name) for name in questions.TABLES}
        frame = questions.ask(tables)["delays_by_carrier"]
        self._console.print(frame.explain(), markup=False)
        self._console.print("\nwhat the jobs did")
        for job in jobs.values():
            self._console.print(job.explain(), markup=False)
        graph = self._out / "job_graph.svg"
        graph.write_text(str(frame.explain(format="svg")))
        picture = draw_delays(
            answers["delays_by_carrier"], answers["delays_by_weather"], self._out / "delays.png"
        )
        self._console.print(f"  pictures: {picture} and {graph}")
        self._agreement.summary()

    def _keep(self, session: Session, fabric_: LocalProcesses) -> None:
        """Leave all up, with the answer as a dataset: the result of a job is kept for minutes."""
        tables = {name: session.read_dataset(name) for name in questions.TABLES}
        questions.ask(tables)[KEPT].write_dataset(
            KEPT, mode="overwrite", replicas=questions.REPLICAS
        )
        shown = snippet(session.flight_url, KEPT, fabric_.home.token, fabric_.way.roots)
        self._console.print(shown, markup=False)
        with stop_asked() as stop:
            self._console.print(f"the fabric stays up at {fabric_.url}; Ctrl-C stops it")
            while not stop.wait(POLL_S):
                pass
        self._console.print("stopped")

    # ---- words
    def _say(self, step: int, text: str) -> None:
        self._console.print(f"\n[bold]step {step}[/bold] · {text}")

    def _input_rows(self, question: str) -> int:
        return sum(self._rows[table] for table in questions.READS[question])

    def _print_table(self, name: str, table: pa.Table) -> None:
        self._console.print(f"\n{name} ({questions.UNITS[name]})")
        fabric.DataFrame(table).show(20)

    def _waited_for_spark(self) -> SparkSession:
        from fabric.clients.spark import install

        assert self._spark is not None
        if not self._spark.done():
            self._console.print("  (waiting for the Spark session)")
        return install(self._spark.result())


def _csv_tables(session: Session, files: Mapping[str, Path]) -> dict[str, DataFrame]:
    return {
        name: session.read_csv(path, null_values=questions.NULL) for name, path in files.items()
    }


def _load_one(df: DataFrame, name: str) -> tuple[int, float]:
    job, seconds = _timed(
        lambda: df.write_dataset(
            name, keys=questions.KEYS[name], mode="overwrite", replicas=questions.REPLICAS
        )
    )
    return job.rows, seconds


def _csv_rows(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file) - 1


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    begin = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - begin


def _rate(rows: int, seconds: float) -> str:
    return f"{rows:,} rows in {seconds:.2f} s ({rows / seconds:,.0f} rows/s)"


def _token(home: FabricHome) -> str:
    return home.token.read_text().strip()


def free_port() -> int:
    """A port of 127.0.0.1 that is free now, below the range that outgoing connections use."""
    for port in range(16123, 16623):
        if port_is_free("127.0.0.1", port):
            return port
    raise ExternalError("no free port from 16123 to 16622 on 127.0.0.1")
