"""Which seeds: 100, in the long run 10,000, or the one that is to be seen again."""

from __future__ import annotations

import os

import pytest

SEEDS = 10_000 if os.environ.get("FABRIC_SOAK") else 100
BLOCK = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="replay one seed of the simulator")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`seeds` is a block of them."""
    if "seeds" not in metafunc.fixturenames:
        return
    chosen = metafunc.config.getoption("--seed", None)
    if chosen is None and "FABRIC_SEED" in os.environ:
        chosen = int(os.environ["FABRIC_SEED"])
    blocks = [range(first, first + BLOCK) for first in range(0, SEEDS, BLOCK)]
    if chosen is not None:
        blocks = [range(chosen, chosen + 1)]
    metafunc.parametrize("seeds", blocks, ids=[f"{b[0]}-{b[-1]}" for b in blocks])
