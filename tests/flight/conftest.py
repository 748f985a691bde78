from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fabric.testing.flight_rig import FlightRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FlightRig]:
    with FlightRig(tmp_path) as rig:
        yield rig
