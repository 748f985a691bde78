"""Examples in the docstrings of compiled modules, which pytest does not find by itself."""

from __future__ import annotations

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import fabric._cython

MODULES = [
    found.name
    for found in walk_packages(fabric._cython.__path__, "fabric._cython.")
    if not found.ispkg
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    failed, _ = doctest.testmod(import_module(name))
    assert failed == 0


def test_examples_are_found() -> None:
    assert sum(doctest.testmod(import_module(name)).attempted for name in MODULES) >= 15
