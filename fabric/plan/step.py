"""The check of a plan that is a checked plan with one step more.

One job: `schema_after`, which looks at the new step alone where that is enough, so that building a
plan of n steps takes n looks and not n².
"""

from __future__ import annotations

import pyarrow as pa

from fabric.errors import PlanError
from fabric.plan.check import check
from fabric.plan.nodes import (
    Distinct,
    Explode,
    Filter,
    Limit,
    Plan,
    Select,
    Sort,
    Window,
    WithColumns,
)
from fabric.plan.schema import is_known, schema_of
from fabric.plan.stream_check import stream_of

_SIMPLE = Filter | Select | WithColumns | Window | Explode | Sort | Limit | Distinct
"""Steps that have no settings that `check` would have to look at."""


def schema_after(plan: Plan) -> pa.Schema:
    """What `plan` puts out; raises `PlanError` as `fabric.plan.check.check` does.

    >>> from fabric.plan.expr import Column
    >>> from fabric.plan.nodes import StageInput
    >>> source = Filter(StageInput(0, pa.schema([("a", pa.bool_())])), Column("a"))
    >>> _ = schema_of(source)
    >>> schema_after(Plan(Limit(source, 3))).names
    ['a']
    """
    root = plan.root
    if isinstance(root, _SIMPLE) and not root.path and is_known(root.input) and not is_known(root):
        try:
            schema = schema_of(root)
            stream_of(root)
            return schema
        except PlanError:
            return _of_all(plan)  # raises it again, with the path of the step
    return _of_all(plan)


def _of_all(plan: Plan) -> pa.Schema:
    return schema_of(check(plan).root)
