"""What streams are made of, kernel by kernel: single calls in microseconds, rows a second.

Every module of this folder with `cases(quick)` and `engines(case)` brings cases; a case's name is
its alone. Files `bench_*.py` are for pytest-benchmark: `pytest bench/kernels/bench_hash.py`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from bench.harness import Benchmark, Case, Engine


def owners() -> list[ModuleType]:
    """The modules that bring cases."""
    names = [m.name for m in iter_modules(__path__) if not m.name.startswith("bench_")]
    modules = [import_module(f"{__name__}.{name}") for name in sorted(names)]
    return [module for module in modules if hasattr(module, "engines")]


def cases(quick: bool) -> list[Case]:
    return [case for owner in owners() for case in owner.cases(quick)]


def engines(case: Case) -> list[Engine]:
    names = {known.name: owner for owner in owners() for known in owner.cases(quick=False)}
    found: list[Engine] = names[case.name].engines(case)
    return found


BENCHMARK = Benchmark(
    name="kernels",
    about="event time, barriers, keyed state: single calls (p99_us) and rows a second",
    cases=cases,
    engines=engines,
)
