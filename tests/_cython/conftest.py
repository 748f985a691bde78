"""Every CPU path this machine has, forced; the one in use is put back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fabric._cython.kernels.cpu import cpu_path, cpu_paths, set_cpu_path


@pytest.fixture(params=cpu_paths())
def forced_cpu(request: pytest.FixtureRequest) -> Iterator[str]:
    before = cpu_path()
    set_cpu_path(request.param)
    yield request.param
    set_cpu_path(before)
