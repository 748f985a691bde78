"""Verbs that write the rows: files, datasets of the fabric, Flight servers.

One job: `write_…`; what each writes to is a target of `targets.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric.clients.dataframe.arguments import FileOption, StorageOptions, roots_of
from fabric.clients.dataframe.names import (
    call_text,
    column_names,
    known_names,
    text,
)
from fabric.clients.dataframe.targets import (
    Table,
    by_changes,
    dataset_target,
    file_target,
    postgres_target,
)
from fabric.clients.dataframe.verbs.base import Verbs
from fabric.clients.dataframe.verbs.kafka import upserted
from fabric.errors import PlanError
from fabric.ids import check_name
from fabric.plan import nodes, places, targets
from fabric.plan.faults import quoted
from fabric.plan.schema import schema_of
from fabric.plan.stream_facts import stream_of
from fabric.plan.targets import DatasetMode, FileMode, PostgresMode

if TYPE_CHECKING:
    from fabric.clients.dataframe.durations import Length
    from fabric.clients.job.job import Job


class WritingVerbs(Verbs):
    """``write_parquet``, ``write_csv``, ``write_json``, ``write_ipc``, ``write_dataset`` …"""

    __slots__ = ()

    def write_parquet(
        self,
        path: str | Path,
        *,
        mode: FileMode = "error",
        partition_by: str | Iterable[str] = (),
        max_rows_per_file: int = 0,
        force: bool = False,
        storage_options: StorageOptions = None,
        wait: bool = True,
        **options: FileOption,
    ) -> Job:
        """Write one file (``….parquet``) or a folder of parts; nothing is left when it fails.

        Parameters
        ----------
        path
            Also the URL of an object or a prefix, ``s3://bucket/sales``, ``gs://…``, ``az://…``:
            ``docs/object_stores.md`` says when others see what.
        mode
            ``error`` refuses a target that is there, ``overwrite`` replaces it, ``append`` adds
            files to a folder whose files have the same columns.
        partition_by
            Columns whose values become folders, ``path/year=2024/…``, and are left out of the
            files: whole numbers, texts, booleans, dates, timestamps and decimals. They are texts
            there, and a reader finds their types anew: "007" and "7" of a column of texts both
            come back as 7, unless it is read with ``hive={"k": "string"}``. Null is the folder
            ``year=__HIVE_DEFAULT_PARTITION__``, the text "" is ``year=``, as Polars, DuckDB and
            pyarrow have them, so that both come back as they were. Spark can't read the latter
            (it writes both as null): replace "" first where it is to read the files.
        max_rows_per_file
            A part ends at so many rows, and the next one begins; 0: no limit.
        force
            With ``overwrite``: whatever else lies in the folder goes, too. Without it a folder is
            only replaced if all that it holds are data files of formats that Fabric reads, folders
            ``column=value`` and marker files such as ``_SUCCESS``, whoever wrote them.
        storage_options
            Of the store of a URL, as in `fabric.read_parquet`.
        wait
            False returns while the job runs.
        options
            ``compression`` ("snappy" (default), "zstd", "lz4", "gzip", "brotli", "none"),
            ``compression_level``, ``row_group_size`` in rows (1,048,576).

        Raises
        ------
        PlanError, NotFoundError
            The target is there, is of another kind or has other columns; its folder is missing.

        Examples
        --------
        >>> import fabric, tempfile, os
        >>> folder = tempfile.mkdtemp() + "/sales"
        >>> sales = fabric.DataFrame({"year": [2023, 2024], "amount": [1.5, 2.5]})
        >>> _ = sales.write_parquet(folder, partition_by="year", compression="zstd")
        >>> sorted(os.listdir(folder))
        ['year=2023', 'year=2024']
        >>> _ = sales.write_parquet(folder, partition_by="year", mode="append")
        >>> fabric.read_parquet(folder).count()
        4
        """
        shape = mode, partition_by, max_rows_per_file, force, storage_options
        return self._write_files("parquet", path, shape, options, wait)

    def write_csv(
        self,
        path: str | Path,
        *,
        mode: FileMode = "error",
        partition_by: str | Iterable[str] = (),
        max_rows_per_file: int = 0,
        force: bool = False,
        storage_options: StorageOptions = None,
        wait: bool = True,
        **options: FileOption,
    ) -> Job:
        r"""Write one CSV file (``….csv``) or a folder of parts; see `write_parquet`.

        A file whose name ends with ``.csv.gz``, ``.bz2``, ``.zst`` or ``.lz4`` is compressed.
        Null is an empty field, the text "" a quoted one. Options are ``delimiter`` (also ``sep``,
        ``separator``), ``header`` (``has_header``), ``quote_style`` ("necessary", "always",
        "never").

        >>> import fabric, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = fabric.DataFrame({"a": [1, None], "b": ["x", ""]}).write_csv(f"{folder}/a.csv")
        ...     pathlib.Path(folder, "a.csv").read_text()
        '"a","b"\n1,"x"\n,""\n'
        """
        shape = mode, partition_by, max_rows_per_file, force, storage_options
        return self._write_files("csv", path, shape, options, wait)

    def write_json(
        self,
        path: str | Path,
        *,
        mode: FileMode = "error",
        partition_by: str | Iterable[str] = (),
        max_rows_per_file: int = 0,
        force: bool = False,
        lines: bool = True,
        storage_options: StorageOptions = None,
        wait: bool = True,
    ) -> Job:
        r"""Write JSON: one file (``….json``, ``….ndjson``, ``….jsonl``) or a folder of parts.

        With `lines` a row is an object on a line of its own, else a file is one array of objects.
        Files are compressed as in `write_csv`; other arguments are as in `write_parquet`. Null, NaN
        and infinities are null; times are ISO 8601, those with a zone in UTC; bytes are base64.
        Durations, unions and maps whose keys are no text are refused.

        >>> import fabric, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = fabric.DataFrame({"a": [1, None]}).write_json(f"{folder}/a.json")
        ...     pathlib.Path(folder, "a.json").read_text()
        '{"a":1}\n{"a":null}\n'
        """
        shape = mode, partition_by, max_rows_per_file, force, storage_options
        return self._write_files("json", path, shape, {"lines": lines}, wait)

    def write_ipc(
        self,
        path: str | Path,
        *,
        mode: FileMode = "error",
        partition_by: str | Iterable[str] = (),
        max_rows_per_file: int = 0,
        force: bool = False,
        storage_options: StorageOptions = None,
        wait: bool = True,
        **options: FileOption,
    ) -> Job:
        """Write one Arrow file (``….arrow``) or a folder of parts; see `write_parquet`.

        The option is ``compression``: "zstd", "lz4", or "none" (default).

        >>> import fabric, tempfile
        >>> df = fabric.DataFrame({"a": [1, 2]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     df.write_ipc(f"{folder}/a.arrow", compression="lz4").rows
        2
        """
        shape = mode, partition_by, max_rows_per_file, force, storage_options
        return self._write_files("ipc", path, shape, options, wait)

    def write_flight(
        self,
        uri: str,
        *path: str,
        token: str = "",
        tls_roots: str | Path | None = None,
        insecure: bool = False,
        name: str = "",
        wait: bool = True,
    ) -> Job:
        """``do_put`` the rows to any Flight server under the path descriptor `path`.

        See `read_flight` for `token`, `tls_roots` and `insecure`.

        >>> import fabric
        >>> fabric.DataFrame({"a": [1]}).write_flight("grpc+tcp://localhost:8815")
        Traceback (most recent call last):
        fabric.errors.PlanError: write_flight needs a path: \
write_flight("grpc+tcp://host:port", "name")
        """
        if not path:
            raise PlanError(
                'write_flight needs a path: write_flight("grpc+tcp://host:port", "name")'
            )
        roots = roots_of(uri, tls_roots, token, insecure)
        target = targets.FlightTarget(uri, tuple(path), token, roots, insecure)
        return self._sink(target, name, wait)

    def materialize(
        self,
        name: str,
        *,
        key: str | Iterable[str],
        parallelism: int | None = None,
        latency: Length | None = None,
    ) -> Job:
        """Start a job that keeps the newest row of each key of a stream; returns at once.

        The rows are the dataset `name`: any Flight client reads them while the job runs, as of the
        last complete checkpoint. ``session.view(name)`` looks single keys up. Rows of changing
        results take the place of earlier ones, or take them back. When the stream ends, the last
        rows stay as a dataset; when the job is cancelled or fails, they go.

        Parameters
        ----------
        key
            The columns that a row is known by; of changing results those that tell them apart. Null
            equals null.
        parallelism
            How many tasks keep it; each is a partition of the dataset.
        latency
            See `write_stream`.

        Raises
        ------
        PlanError
            The frame is not a stream, or these columns do not tell its rows apart.
        ConfigError
            There is a dataset of that name, or a view whose job runs.

        Examples
        --------
        >>> import fabric
        >>> from fabric import col, streams
        >>> with fabric.connect() as session:
        ...     rows = streams.generator(n_rows=1_000, n_keys=10, session=session)
        ...     totals = rows.group_by("key").agg(n=col("row").count())
        ...     job = totals.materialize("totals", key="key").wait()
        ...     session.view("totals").get(3)["key"]
        3
        """
        if stream_of(self._node) is None:
            raise PlanError(
                "materialize keeps the newest rows of a stream, and this is a table; write: "
                f".write_dataset({quoted(name)})"
            )
        keys = column_names(key, "materialize: key")
        known_names(
            keys, schema_of(self._node).names, "materialize: key",
            lambda names: call_text("materialize", name, key=names),
        )  # fmt: skip
        if not keys or len(set(keys)) < len(keys):
            raise PlanError(
                f"materialize: key={list(keys)} must name one column or more, each once"
            )
        named = check_name(text(name, "materialize", "name"), "view name")
        target = targets.DatasetTarget(named, keys, mode="view")
        rows, target = upserted(self._node, target)
        root = nodes.Sink(nodes.Exchange(rows, "hash", keys), target)
        frame = self._then(root)
        return frame.submit(f"view {name}", parallelism=parallelism, latency=latency)

    def write_dataset(
        self,
        name: str,
        *,
        keys: str | list[str] | tuple[str, ...] = (),
        n_partitions: int = 0,
        mode: DatasetMode = "create",
        replicas: int | None = None,
        wait: bool = True,
    ) -> Job:
        """Write a named dataset of the fabric, hash-partitioned by `keys`.

        Any Flight client then reads it as ``["dataset", name]``. Each partition lies with
        `replicas` agents (default 1; an append keeps those the dataset has), so that it can be read
        as long as one of them is there.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     _ = fabric.DataFrame({"k": [1, 2], "v": [3, 4]}).write_dataset("sales", keys="k")
        ...     session.read_dataset("sales").count()
        2
        """
        target = dataset_target(
            name, keys=keys, n_partitions=n_partitions, mode=mode, replicas=replicas
        )
        return self._sink(target, name, wait)

    def write_postgres(
        self,
        table: Table,
        *,
        dsn: str,
        key: str | Iterable[str] = (),
        mode: PostgresMode | None = None,
        password: str = "",
        staging: str = "fabric_sink",
        insecure: bool = False,
        name: str = "",
        wait: bool = True,
    ) -> Job:
        """Write the rows to a PostgreSQL table (13 or newer) exactly once, whatever fails.

        The rows of a bounded input become visible together when the job succeeds, those of a stream
        with each complete checkpoint; for an unbounded stream the call returns the running job.
        Needs psycopg on this machine and the agents: ``pip install 'flight-fabric[postgres]'``.

        Parameters
        ----------
        table
            ``"name"`` (in the schema ``public``), ``"schema.name"``, or a pair of both. Names are
            case-sensitive.
        dsn
            ``postgresql://user:password@host:port/database?sslmode=…`` or libpq's
            ``host=… dbname=…``. The password never appears in plan texts, logs, errors or
            checkpoints.
        key
            The columns that identify a row: a row replaces the one with the same key. Of changing
            results the table keeps the last row of each key; withdrawn rows are deleted.
        mode
            ``create`` creates the table (with `key` as primary key) and fails if it exists;
            ``append`` adds rows; ``upsert`` replaces rows with the same `key`; ``overwrite``
            replaces all rows at once (not for streams). The default is ``upsert`` with a key, and
            ``create`` without.
        password
            The password, if it is not part of `dsn`; by default the variable ``PGPASSWORD``.
        staging
            The schema for staging tables; it is created if it does not exist.
        insecure
            Allow an unencrypted connection to another machine.
        wait
            False returns while the job of a bounded input runs.

        Raises
        ------
        PlanError, AuthError, ConfigError
            Before anything is written: the table, its columns, privileges or constraints do not
            fit; the message has the SQL statement to fix that.
        DataError
            Rows violate a constraint of the table.

        Examples
        --------
        >>> import fabric
        >>> orders = fabric.DataFrame({"id": [1, 2], "amount": [1.5, 2.5]})
        >>> orders.write_postgres("a.b.c", dsn="postgresql://ann@localhost/shop")
        Traceback (most recent call last):
        fabric.errors.PlanError: write_postgres: table must be "name" or "schema.name", or \
("schema", "na.me") for a name that contains a dot; got 'a.b.c'
        """
        target = postgres_target(
            table, dsn, key=key, mode=mode, password=password, staging=staging, insecure=insecure
        )
        rows, target = by_changes(self._node, target)
        frame = self if rows is self._node else self._then(rows)
        return frame._sink(target, name or f"write {target.table}", wait)

    def _write_files(
        self,
        format: places.FileFormat,
        path: str | Path,
        shape: tuple[FileMode, str | Iterable[str], int, bool, StorageOptions],
        options: dict[str, Any],
        wait: bool,
    ) -> Job:
        mode, partition_by, rows_max, force, storage_options = shape
        target = file_target(
            format, path, mode=mode, partition_by=partition_by, rows_max=rows_max, force=force,
            storage_options=storage_options, **options,
        )  # fmt: skip
        return self._sink(target, f"write {Path(target.path).name}", wait)
