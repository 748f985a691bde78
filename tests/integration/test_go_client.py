"""Arrow's Go integration client against the agents' own server class, scenario by scenario."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.foreign import BUILD_S, go_client
from tests.support.scenario_server import scenario_server
from tests.support.scenarios import SCENARIOS

BUILD = Path(__file__).parents[2] / "build" / "foreign"


@pytest.fixture(scope="module")
def client() -> Path:
    return go_client(BUILD)


def run(client: Path, port: int, scenario: str) -> subprocess.CompletedProcess[str]:
    command = [str(client), "-host", "127.0.0.1", "-port", str(port), "-scenario", scenario]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.timeout(BUILD_S)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario(client: Path, scenario: str) -> None:
    with scenario_server(scenario) as port:
        done = run(client, port, scenario)
    assert done.returncode == 0, done.stderr[:2000]


@pytest.mark.timeout(BUILD_S)
def test_the_client_tells_when_a_scenario_fails(client: Path) -> None:
    with scenario_server("location:reuse_connection") as port:
        done = run(client, port, "ordered")
    assert done.returncode != 0
    assert "FlightInfo.ordered" in done.stderr
