"""Frames that run on one session: ``session.read_parquet(...)`` and its like.

One job: `Readers`, the functions `fabric.read_…` as methods of a session.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from fabric.clients.dataframe.arguments import FileOption
    from fabric.clients.dataframe.durations import Length
    from fabric.clients.dataframe.expressions.types import TableLike
    from fabric.clients.dataframe.frame import DataFrame
    from fabric.clients.dataframe.readers.files import Paths
    from fabric.clients.dataframe.session import Session
    from fabric.clients.job.job import Job
    from fabric.plan.sources import StreamSource


class Readers:
    """What a session can read; the frames run on it.

    Each method is the function of `fabric` of that name, without its `session`.

    Examples
    --------
    >>> import fabric, tempfile
    >>> with fabric.connect() as session, tempfile.TemporaryDirectory() as folder:
    ...     df = session.read_arrow({"a": [1, 2]})
    ...     _ = df.write_parquet(folder + "/rows"), df.write_dataset("rows")
    ...     print(session.read_parquet(folder + "/rows", columns="a").to_dicts())
    ...     print(session.read_dataset("rows").count())
    [{'a': 1}, {'a': 2}]
    2
    """

    @property
    def _here(self) -> Session:
        """Itself, as frames know it."""
        return cast("Session", self)

    def read_parquet(self, paths: Paths, **options: FileOption) -> DataFrame:
        """`fabric.read_parquet` with all its `options`, to run here."""
        from fabric.clients.dataframe.readers import files  # for start-up time

        return files.read_parquet(paths, session=self._here, **cast("Any", options))

    def read_csv(self, paths: Paths, **options: FileOption) -> DataFrame:
        """`fabric.read_csv` with all its `options`, to run here."""
        from fabric.clients.dataframe.readers import files  # for start-up time

        return files.read_csv(paths, session=self._here, **cast("Any", options))

    def read_json(self, paths: Paths, **options: FileOption) -> DataFrame:
        """`fabric.read_json` with all its `options`, to run here."""
        from fabric.clients.dataframe.readers import files  # for start-up time

        return files.read_json(paths, session=self._here, **cast("Any", options))

    def read_ipc(self, paths: Paths, **options: FileOption) -> DataFrame:
        """`fabric.read_ipc` with all its `options`, to run here."""
        from fabric.clients.dataframe.readers import files  # for start-up time

        return files.read_ipc(paths, session=self._here, **cast("Any", options))

    def read_arrow(self, data: TableLike) -> DataFrame:
        """`fabric.read_arrow`, to run here."""
        from fabric.clients.dataframe.readers.tables import read_arrow  # for start-up time

        return read_arrow(data, session=self._here)

    def read_flight(
        self,
        uri: str,
        *path: str,
        command: bytes | str = b"",
        token: str = "",
        tls_roots: str | Path | None = None,
        insecure: bool = False,
    ) -> DataFrame:
        """`fabric.read_flight`, to run here."""
        from fabric.clients.dataframe.readers.tables import read_flight  # for start-up time

        return read_flight(
            uri, *path, command=command, token=token, tls_roots=tls_roots, insecure=insecure,
            session=self._here,
        )  # fmt: skip

    def read_dataset(self, name: str) -> DataFrame:
        """`fabric.read_dataset`, from here."""
        from fabric.clients.dataframe.readers.tables import read_dataset  # for start-up time

        return read_dataset(name, session=self._here)

    def read_state(
        self, job: str | Job, path: str, state: str = "", *, keys: Any = None
    ) -> DataFrame:
        """`fabric.read_state`, from here."""
        from fabric.clients.dataframe.readers.states import read_state  # for start-up time

        return read_state(job, path, state, keys=keys, session=self._here)

    def read_stream(
        self, source: str | Path | StreamSource, **options: FileOption | Length
    ) -> DataFrame:
        """`fabric.read_stream`, to run here."""
        from fabric.clients.dataframe.streams import read_stream  # for start-up time

        return read_stream(source, session=self._here, **options)
