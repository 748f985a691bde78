"""Python's start, for those processes of a test's Spark that fork its workers.

They import what workers need, so that it is done once and not by every worker: an error costs a
worker, and a new one took most of a second. The threads that these imports start (of OpenBLAS and
jemalloc) come again in a fork.
"""

import sys

if "pyspark.daemon" in sys.orig_argv:
    import pyspark.worker  # noqa: F401 - for the forks

    import fabric.clients.spark.reader
    import fabric.clients.spark.source
    import fabric.clients.spark.writer  # noqa: F401 - for the forks
