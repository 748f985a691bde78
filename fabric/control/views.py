"""How views are called among datasets.

One job: what a `DatasetLocation` says of a view. Its one part has a transaction that says the job,
the run and the moment: ``view.job-1a.3.17`` for a checkpoint, ``view.job-1a.3.final`` for the end.
Beside it lies, while the job runs, the dataset ``<name>.live`` of ``view.job-1a.3.live``: what the
tasks have now.
"""

from __future__ import annotations

from fabric.control.control_pb2 import DatasetLocation

VIEW = "view."
"""What transactions and makers of views begin with."""
FINAL, LIVE = "final", "live"
"""Moments without a number."""


def live_name(name: str) -> str:
    """The dataset that has what the tasks of view `name` have now."""
    return f"{name}.{LIVE}"


def moment_of(transaction: str) -> str:
    """The checkpoint that a view's transaction names, `FINAL` or `LIVE`.

    >>> moment_of("view.job-1a.3.17"), moment_of("view.job-1a.3.live") == LIVE
    ('17', True)
    """
    return transaction.rpartition(".")[2]


def job_of(location: DatasetLocation) -> str:
    """The job that keeps a view, or kept it; "" of a dataset that is none.

    >>> job_of(DatasetLocation(made_by="view.job-1a")), job_of(DatasetLocation())
    ('job-1a', '')
    """
    return location.made_by.removeprefix(VIEW) if location.made_by.startswith(VIEW) else ""


def is_kept(location: DatasetLocation) -> bool:
    """Whether it is a view whose rows a job keeps, so that they change."""
    return bool(job_of(location)) and moment_of(location.parts[0].transaction) != FINAL


def is_live(location: DatasetLocation) -> bool:
    """Whether it is what the tasks of a view have now: its rows are not counted."""
    return is_kept(location) and moment_of(location.parts[0].transaction) == LIVE
