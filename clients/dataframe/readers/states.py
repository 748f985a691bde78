"""What a stream keeps by key, as a DataFrame.

One job: `read_state`. The handle with the reading by key is `KeptState`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fabric.clients.dataframe.session import Session, default_session

if TYPE_CHECKING:
    from fabric.clients.dataframe.frame import DataFrame
    from fabric.clients.job.job import Job
    from fabric.clients.session.kept_state import StateHost


def read_state(
    job: str | Job, path: str, state: str = "", *, keys: Any = None, session: Session | None = None
) -> DataFrame:
    """What a step of a stream keeps by key, as of the newest complete checkpoint of its job.

    Parameters
    ----------
    job
        The job, or its id.
    path
        The step, by its name: ``job.states()`` lists those with state.
    state
        Which of its states; may be left out where it keeps one.
    keys
        Only the rows of these keys: values (tuples where there are several key columns), a mapping
        of values by column, or an Arrow table. Only the files of the tasks that hold them are read.

    Raises
    ------
    NotFoundError
        There is no such job, step or state (the error lists what there is), or no complete
        checkpoint yet.
    DataError
        Keys of other types, or a file of the checkpoint is damaged.

    Examples
    --------
    >>> import fabric, tempfile
    >>> from fabric import streams
    >>> with fabric.connect() as session:
    ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
    ...     rows = streams.generator(n_keys=4, rows_per_s=400, session=session)
    ...     job = rows.group_by("key").count().named("counts").changes().write_stream(
    ...         streams.to_blackhole())
    ...     _ = job.savepoint("doc")
    ...     print(fabric.read_state(job, "counts", keys=[1, 9], session=session).columns)
    ...     _ = job.cancel()
    ['key', 'count']
    """
    from fabric.clients.session.kept_state import KeptState  # for start-up time: it brings Flight

    host = cast(
        "StateHost", session or (default_session() if isinstance(job, str) else job.session)
    )
    found = KeptState(host, job if isinstance(job, str) else job.id, path, state)
    return found.read() if keys is None else host.read_arrow(found.get_many(keys))
