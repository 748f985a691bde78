"""The byte budget: counts are exact, waits end when there is room, turn by turn, or by a close."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.shuffle.store.budget import Budget, Share


def waiting(budget: Budget, n_waiting: int) -> None:
    """Until so many wait: they took the lock, and it is a matter of moments."""
    while budget.n_waiting != n_waiting:
        pass


@given(st.integers(1, 50), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=60))
def test_counts_agree_with_a_model(bytes_max: int, steps: list[tuple[int, int]]) -> None:
    budget = Budget(bytes_max)
    shares = [Share(budget) for _ in range(3)]
    held = [0, 0, 0]
    for at, size in steps:
        may = held[at] == 0 or sum(held) + size <= bytes_max
        assert shares[at].try_reserve(size) is may
        held[at] += size * may
        if size % 3 == 0:
            shares[at].give_back(held[at] // 2)
            held[at] -= held[at] // 2
        assert [share.held_bytes for share in shares] == held
        assert budget.used_bytes == sum(held)
    assert [share.close() for share in shares] == held
    assert budget.used_bytes == 0


def test_who_waits_is_served_in_turn_and_nobody_overtakes() -> None:
    budget = Budget(10)
    holder, first, second, quick = (Share(budget) for _ in range(4))
    for share in (first, second, quick):
        share.take(1)
    holder.take(7)
    with ThreadPoolExecutor(2) as pool:
        large = pool.submit(first.reserve, 6)
        waiting(budget, 1)
        small = pool.submit(second.reserve, 2)
        waiting(budget, 2)
        holder.give_back(2)  # enough for the small one, but it came later
        assert not quick.try_reserve(1)
        assert budget.n_waiting == 2
        holder.give_back(5)
        assert large.result(60)
        assert not small.done()
        first.give_back(6)
        assert small.result(60)
    assert budget.used_bytes == 5


def test_who_holds_nothing_never_waits() -> None:
    budget = Budget(10)
    store, edge = Share(budget), Share(budget)
    store.take(1000)
    assert edge.reserve(50)
    assert budget.used_bytes == 1050
    assert not edge.try_reserve(1)
    edge.give_back(50)
    assert edge.reserve(7)


@pytest.mark.parametrize("closed_by", ["close", "owner"])
def test_a_close_wakes_who_waits(closed_by: str) -> None:
    budget = Budget(10)
    holder, share = Share(budget), Share(budget)
    holder.take(10)
    share.take(1)
    with ThreadPoolExecutor(1) as pool:
        found: Future[bool] = pool.submit(share.reserve, 5)
        waiting(budget, 1)
        if closed_by == "close":
            assert share.close() == 1
            assert found.result(60) is False
            assert not share.reserve(1)
            assert not share.try_reserve(1)
        else:
            del holder
            assert found.result(60) is True
    assert budget.used_bytes == (10 if closed_by == "close" else 6)


def test_threads_that_reserve_and_give_back_leave_nothing() -> None:
    budget = Budget(100)

    def work(seed: int) -> int:
        share = Share(budget)
        for step in range(200):
            size = (seed * 31 + step * 17) % 60
            assert share.reserve(size)
            assert share.reserve(1) if size == 0 else share.try_reserve(0) in (True, False)
            share.give_back(share.held_bytes)
        return share.close()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(8))) == {0}
    assert (budget.used_bytes, budget.n_waiting) == (0, 0)


def test_a_budget_is_positive() -> None:
    with pytest.raises(ValueError, match="must be positive, got 0"):
        Budget(0)
