"""Fabric: an Arrow Flight dataflow fabric built around shuffle.

One job: the public names. Each is loaded when it is first used, so ``import fabric`` stays fast.

    import fabric
    from fabric import col

    late = fabric.read_parquet("flights/*.parquet").filter(col("dep_delay") > 15)
    late.group_by("carrier").count().show()
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from os import environ
from types import FunctionType
from typing import TYPE_CHECKING, Any

from fabric.version import __version__

if TYPE_CHECKING:
    from fabric import clients, errors, functions, lookups, patterns, selectors
    from fabric.clients import spark
    from fabric.clients.app.agent_process import EventStream
    from fabric.clients.app.app import App
    from fabric.clients.dataframe import formats, streams
    from fabric.clients.dataframe.expressions.expr import Expr
    from fabric.clients.dataframe.expressions.over import Window
    from fabric.clients.dataframe.expressions.udf import RowByRowWarning, arrow_udf, udf
    from fabric.clients.dataframe.frame import DataFrame, concat
    from fabric.clients.dataframe.functions.functions import (
        all,
        all_horizontal,
        any_horizontal,
        any_value,
        approx_distinct,
        approx_quantile,
        array,
        avg,
        bool_and,
        bool_or,
        coalesce,
        col,
        collect_list,
        concat_list,
        concat_str,
        concat_ws,
        corr,
        count,
        count_distinct,
        count_if,
        covar_pop,
        covar_samp,
        cume_dist,
        date_from_unix_date,
        dense_rank,
        exclude,
        first,
        first_value,
        from_epoch,
        greatest,
        grouping,
        grouping_id,
        hash,
        kurtosis,
        lag,
        last,
        last_value,
        lead,
        least,
        len,
        list_repeat,
        list_zip,
        lit,
        make_date,
        make_timestamp,
        max,
        max_by,
        max_horizontal,
        mean,
        median,
        min,
        min_by,
        min_horizontal,
        n_unique,
        nth_value,
        ntile,
        percent_rank,
        quantile,
        rank,
        row_number,
        sequence,
        skewness,
        std,
        std_pop,
        stddev,
        struct,
        sum,
        sum_horizontal,
        timestamp_micros,
        timestamp_millis,
        timestamp_seconds,
        var,
        var_pop,
        variance,
        when,
    )
    from fabric.clients.dataframe.readers.files import (
        read_csv,
        read_ipc,
        read_json,
        read_parquet,
    )
    from fabric.clients.dataframe.readers.states import read_state
    from fabric.clients.dataframe.readers.tables import (
        date_range,
        from_arrow,
        from_dict,
        from_dicts,
        from_pandas,
        from_polars,
        read_arrow,
        read_dataset,
        read_flight,
    )
    from fabric.clients.dataframe.streams import (
        count_window,
        cumulative,
        global_window,
        read_kafka,
        read_stream,
        session,
        sliding,
        tumbling,
    )
    from fabric.clients.dataframe.verbs.group_by import GroupBy
    from fabric.clients.graph.graph import JobGraph
    from fabric.clients.graph.operators import OperatorType, StreamOperatorNode
    from fabric.clients.job.host import Partition
    from fabric.clients.job.job import Job
    from fabric.clients.session.connect import connect
    from fabric.clients.session.kept_state import KeptState
    from fabric.clients.session.session import Session
    from fabric.clients.session.view import View
    from fabric.errors import FabricError
    from fabric.plan.process import Process, ProcessContext

# With its hooks around a fork gRPC kills one forked child in twenty, such as PySpark's JVM.
environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

_READERS = (
    "date_range", "from_arrow", "from_dict", "from_dicts", "from_pandas", "from_polars",
    "read_arrow", "read_dataset", "read_flight",
)  # fmt: skip
_FILES = ("read_csv", "read_ipc", "read_json", "read_parquet")
_WINDOWS = (
    "count_window", "cumulative", "global_window", "read_kafka", "read_stream", "session",
    "sliding", "tumbling",
)  # fmt: skip
_WHERE = {
    **dict.fromkeys(_READERS, "fabric.clients.dataframe.readers.tables"),
    **dict.fromkeys(_FILES, "fabric.clients.dataframe.readers.files"),
    **dict.fromkeys(_WINDOWS, "fabric.clients.dataframe.streams"),
    "App": "fabric.clients.app.app",
    "DataFrame": "fabric.clients.dataframe.frame",
    "EventStream": "fabric.clients.app.agent_process",
    "Expr": "fabric.clients.dataframe.expressions.expr",
    "FabricError": "fabric.errors",
    "GroupBy": "fabric.clients.dataframe.verbs.group_by",
    "Job": "fabric.clients.job.job",
    "JobGraph": "fabric.clients.graph.graph",
    "OperatorType": "fabric.clients.graph.operators",
    "Partition": "fabric.clients.job.host",
    "Process": "fabric.plan.process",
    "ProcessContext": "fabric.plan.process",
    "RowByRowWarning": "fabric.clients.dataframe.expressions.udf",
    "Session": "fabric.clients.session.session",
    "StreamOperatorNode": "fabric.clients.graph.operators",
    "View": "fabric.clients.session.view",
    "KeptState": "fabric.clients.session.kept_state",
    "read_state": "fabric.clients.dataframe.readers.states",
    "Window": "fabric.clients.dataframe.expressions.over",
    "arrow_udf": "fabric.clients.dataframe.expressions.udf",
    "concat": "fabric.clients.dataframe.frame",
    "connect": "fabric.clients.session.connect",
    "udf": "fabric.clients.dataframe.expressions.udf",
}
_FUNCTIONS = "fabric.clients.dataframe.functions.functions"
"""Where all other names of `__all__` are."""
_MODULES = {
    "clients": "fabric.clients",
    "errors": "fabric.errors",
    "formats": "fabric.clients.dataframe.formats",
    "functions": "fabric.functions",
    "lookups": "fabric.lookups",
    "patterns": "fabric.patterns",
    "selectors": "fabric.selectors",
    "spark": "fabric.clients.spark",
    "streams": "fabric.clients.dataframe.streams",
}

__all__ = [
    "App", "DataFrame", "EventStream", "Expr", "FabricError", "GroupBy", "Job", "JobGraph",
    "KeptState", "OperatorType", "Partition", "Process", "ProcessContext", "RowByRowWarning",
    "Session", "StreamOperatorNode", "View", "Window", "__version__", "all", "all_horizontal",
    "any_horizontal", "any_value",
    "approx_distinct", "approx_quantile", "array", "arrow_udf", "avg", "bool_and", "bool_or",
    "clients", "coalesce", "col", "collect_list", "concat", "concat_list", "concat_str",
    "concat_ws", "connect", "corr", "count", "count_distinct", "count_if", "count_window",
    "covar_pop", "covar_samp", "cume_dist", "cumulative", "date_from_unix_date", "date_range",
    "dense_rank", "errors", "exclude", "first", "first_value", "formats", "from_arrow", "from_dict",
    "from_dicts", "from_epoch", "from_pandas", "from_polars", "functions", "global_window",
    "greatest", "grouping", "grouping_id", "hash", "kurtosis", "lag", "last", "last_value", "lead",
    "least", "len", "list_repeat", "list_zip", "lit", "lookups", "make_date", "make_timestamp",
    "max", "max_by", "max_horizontal", "mean", "median", "min", "min_by", "min_horizontal",
    "n_unique", "nth_value", "ntile", "patterns", "percent_rank", "quantile", "rank", "read_arrow",
    "read_csv",
    "read_dataset", "read_flight", "read_ipc", "read_json", "read_kafka", "read_parquet",
    "read_state", "read_stream", "row_number", "selectors", "sequence", "session", "skewness",
    "sliding", "spark", "std", "std_pop", "stddev", "streams", "struct", "sum", "sum_horizontal",
    "timestamp_micros", "timestamp_millis", "timestamp_seconds", "tumbling", "udf", "var",
    "var_pop", "variance", "when",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in __all__:
        value = getattr(import_module(_WHERE.get(name, _FUNCTIONS)), name)
        if isinstance(value, FunctionType):
            value = import_module("fabric.clients.dataframe.calls").guarded(value)
    else:
        raise AttributeError(f"module 'fabric' has no attribute {name!r}{_hint(name)}", name=name)
    globals()[name] = value
    return value


def _hint(name: str) -> str:
    """The nearest name; none for a submodule, which Python asks for before it imports it: what the
    hint needs brings pyarrow, and an agent chooses its allocators before that."""
    if name.startswith("_") or find_spec(f"fabric.{name}"):
        return ""
    instead = import_module("fabric.clients.dataframe.names").MODULE_INSTEAD
    if name in instead:
        return f"; write: {instead[name]}"
    near = import_module("fabric.plan.faults").nearest(name, __all__)
    return f"; did you mean fabric.{near}?" if near else ""


def __dir__() -> list[str]:
    return sorted(__all__)
