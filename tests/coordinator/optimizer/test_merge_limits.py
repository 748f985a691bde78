from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.optimizer.merge_limits import merge_limits
from fabric.plan.nodes import Limit, Sink
from fabric.plan.targets import GateTarget

SMALL = st.integers(0, 12)


@given(m=SMALL, skipped=SMALL, n=SMALL, offset=SMALL)
def test_equals_two_slices(m: int, skipped: int, n: int, offset: int) -> None:
    rows = list(range(20))
    expected = rows[skipped:][:m][offset:][:n]
    found = merge_limits(Limit(Limit(Sink(None, GateTarget("g")), m, skipped), n, offset))
    assert isinstance(found, Limit)
    assert rows[found.offset :][: found.n] == expected
    assert isinstance(found.input, Sink)


@pytest.mark.parametrize("n", [0, 3])
def test_leaves_others(p: SimpleNamespace, n: int) -> None:
    plan = Limit(p.table(), n)
    assert merge_limits(plan) is plan
