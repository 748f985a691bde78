"""Generated plans on Spark give the rows they give embedded. Every plan has a printed seed."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pyarrow as pa
import pytest
from plan_frames import scan

from fabric.plan.nodes import Node, Scan
from fabric.plan.sources import MemorySource
from fabric.plan.walk import rewrite
from tests.support.plans import random_plan, random_tables

N_SETS = 6 if not os.environ.get("FABRIC_SOAK") else 120
PLANS_A_SET = 5


@pytest.mark.parametrize("seed", range(N_SETS))
def test_same_rows(seed: int, same: Callable[[Node], pa.Table]) -> None:
    tables = random_tables(Random(seed))
    scans = {token: scan(table) for token, table in tables.items()}

    def registered(node: Node) -> Node:
        match node:
            case Scan(source=MemorySource(token=token)):
                return scans[token]
            case _:
                return node

    for number in range(PLANS_A_SET):
        print(f"seed {seed}, plan {number}")
        same(rewrite(random_plan(Random(1000 * seed + number), tables), registered))
