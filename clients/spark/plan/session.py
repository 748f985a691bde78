"""A session on Spark: frames of it run as PySpark DataFrames.

One job: the third kind of session. Datasets live in a fabric beside it: the one that was named, or,
while Spark runs on this machine, one that starts in this process when a dataset is first asked for.
`collect` and `explain` are what frames call with ``engine="spark"``, on any session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import indent
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql import SparkSession

from fabric.clients.dataframe.expressions.udf import chosen
from fabric.clients.dataframe.session import closed
from fabric.clients.job.dry_run import may_run
from fabric.clients.job.host import Partition
from fabric.clients.session.session import Session
from fabric.clients.spark.plan.control import SparkControl
from fabric.clients.spark.plan.errors import as_ours
from fabric.clients.spark.plan.explain import explained, refuse
from fabric.clients.spark.plan.run import execute, prepared
from fabric.clients.spark.plan.sources import DatasetHome, FindHome, no_home
from fabric.clients.spark.plan.start import checked, spark_session
from fabric.control import control_pb2 as pb
from fabric.control.api import ControlApi
from fabric.plan.check import check
from fabric.plan.nodes import Plan
from fabric.plan.printer import tree

if TYPE_CHECKING:
    from fabric.clients.dataframe.session import Session as PlanSession
    from fabric.clients.session.kept_state import StateFacts, StatePath
    from fabric.clients.session.view import View


class SparkPlanSession(Session):
    """Plans run in `spark`; what `connect` started itself, `close` stops.

    Parameters
    ----------
    target
        A master (``spark://host:7077``, ``local[2]``), or ``spark``: the session there is, else a
        local one.
    spark
        A session of the caller's, instead of a target; it stays open.
    datasets
        Where datasets are: a session on a fabric.
    opens
        Opens that session instead, and it is closed with this one. Called when Spark is up: its JVM
        is forked, and gRPC's threads do not go with that.
    """

    def __init__(
        self,
        target: str = "spark",
        *,
        spark: SparkSession | None = None,
        datasets: Session | None = None,
        opens: Callable[[], Session] | None = None,
        parallelism: int | None = None,
    ) -> None:
        self._stops_spark, self.spark = (
            (False, checked(spark)) if spark is not None else spark_session(target)
        )
        self._datasets_at, self._own_home = datasets, None
        if opens is not None:
            try:
                self._datasets_at = self._own_home = opens()
            except BaseException:
                if self._stops_spark:
                    self.spark.stop()
                raise
            closed(self._own_home)  # not where frames without a session run
        control = SparkControl(self.spark, self.home, self._dataset_control)
        super().__init__(control, parallelism=parallelism)
        self._control = control

    def result_batches(self, status: pb.JobStatus) -> Iterator[pa.RecordBatch]:
        """See `Session`."""
        yield from self._control.rows(status.job_id).to_batches()

    def partitions(self, status: pb.JobStatus, node_path: str, lossless: bool) -> list[Partition]:
        """None to be read by Flight clients: raises `NotFoundError`."""
        self._control.locate(pb.LocateRequest(job_id=status.job_id))
        return []

    def view(self, name: str) -> View:
        """See `Session`; a fabric keeps it."""
        return self._home_session().view(name)

    def view_rows(
        self, address: str, name: str, partition: int, keys: pa.Table, *, live: bool
    ) -> pa.Table:
        """See `Session`."""
        return self._home_session().view_rows(address, name, partition, keys, live=live)

    def states(self, job: str = "") -> list[StateFacts]:
        """See `Session`; of streams of the fabric."""
        return self._home_session().states(job)

    def state_facts(self, path: StatePath) -> StateFacts:
        """See `Session`."""
        return self._home_session().state_facts(path)

    def state_rows(self, path: StatePath, limit: int = 0) -> pa.Table:
        """See `Session`."""
        return self._home_session().state_rows(path, limit)

    def state_rows_of(self, path: StatePath, keys: pa.Table) -> pa.Table:
        """See `Session`."""
        return self._home_session().state_rows_of(path, keys)

    def home(self) -> DatasetHome:
        """The fabric that plans read and write datasets of."""
        return DatasetHome.of(self._home_session())

    @property
    def flight_url(self) -> str:
        """An agent of the fabric whose datasets this session reads."""
        return self._home_session().flight_url

    @property
    def token(self) -> str:
        """The token of that fabric."""
        return self._home_session().token

    @property
    def tls_roots(self) -> bytes | None:
        """See `Session`; of that fabric."""
        return self._home_session().tls_roots

    @property
    def insecure(self) -> bool:
        """See `Session`; of that fabric."""
        return self._home_session().insecure

    def _home_session(self) -> Session:
        """The session on the fabric of datasets; an embedded one starts if Spark is local."""
        if self._datasets_at is not None:
            return self._datasets_at
        if not str(self.spark.sparkContext.master).startswith("local"):
            no_home()
        if self._own_home is None:
            from fabric.clients.session.local import EmbeddedSession

            self._own_home = EmbeddedSession(serve=True)
            closed(self._own_home)
        return self._own_home

    def _dataset_control(self) -> ControlApi:
        return self._home_session().control

    def _prepared(self, plan: Plan) -> Plan:
        """Tables of this process travel to Spark as they are."""
        return plan

    def _stop(self) -> None:
        self._control.close()
        if self._own_home is not None:
            self._own_home.close()
        if self._stops_spark:
            self.spark.stop()

    def __repr__(self) -> str:
        return f"Session({self.spark.sparkContext.master})"


def collect(plan: Plan, session: PlanSession | None = None) -> pa.Table:
    """All rows of `plan`, computed by Spark.

    It runs in the Spark session of `session` when that is one on Spark, else in the active one of
    this thread, else in one of this machine that starts now. Datasets are those of `session`.
    """
    may_run(plan, session)
    root = check(chosen(plan)).root
    refuse(root)  # before a Spark session starts
    spark, home = _place(session)
    refuse(root, spark)
    return execute(root, spark, home)


def explain(plan: Plan, session: PlanSession | None = None) -> str:
    """The plan, what Spark would refuse of it, and Spark's own plan; nothing runs."""
    checked = check(chosen(plan))
    root = checked.root
    spark, home = _place(session)
    with as_ours(root), prepared(spark) as inside:
        found = explained(checked, inside, home)
    parts = [("plan", tree(root)), ("refused on Spark", found.refused)]
    if found.left != "nothing":
        parts.append(("left to Spark", found.left))
    if found.refused == "nothing":
        parts += [("Spark's optimised plan", found.optimised), ("Spark's plan", found.physical)]
    return "\n\n".join(f"{title}\n{indent(body.rstrip(), '  ')}" for title, body in parts)


def _place(session: PlanSession | None) -> tuple[SparkSession, FindHome]:
    """The Spark session to run in, and where datasets are."""
    if isinstance(session, SparkPlanSession):
        return session.spark, session.home
    if session is None:
        return spark_session()[1], no_home
    return spark_session()[1], lambda: DatasetHome.of(cast("Session", session))
