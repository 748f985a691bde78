"""Random valid plans whose result every engine must agree on.

One job: `random_plan`. A plan draws on all nodes and aggregates and on the expressions that cannot
fail on its data; its rows are the same multiset wherever it runs: limits only above a sort by all
columns, sums only of exact values. Equal seeds give equal plans.
"""

from __future__ import annotations

from tests.support.plans.generator import random_plan
from tests.support.plans.tables import random_tables

__all__ = ["random_plan", "random_tables"]
