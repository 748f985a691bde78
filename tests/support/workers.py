"""How the tests are shared out between pytest's workers: a file whole, Spark's files together."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

SPARK = (  # one JVM a process, in which one Spark session lives: a second would be the same one
    "tests/clients/cli/test_main.py",
    "tests/clients/demo/test_flights.py",
    "tests/clients/spark/",
    "tests/golden/",
    "tests/integration/test_foreign_files.py",
    "tests/integration/test_three_places.py",
    "tests/integration/test_tpcds.py",
    "tests/integration/test_tpch.py",
    "tests/integration/test_writes.py",
)


def group_of(nodeid: str) -> str:
    """The tests that one worker runs in a row: those of a file, or all that use Spark.

    Example
    -------
    >>> group_of("tests/test_config.py::test_unknown[a::b]")
    'tests/test_config.py'
    >>> group_of("tests/clients/spark/test_filters.py::test_is_null")
    'spark'
    """
    return "spark" if nodeid.startswith(SPARK) else nodeid.split("::", 1)[0]


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker that is free the next group, the one of most tests first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
