"""What an agent does between tasks: once a minute it removes what nobody needs any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from fabric.agent.process.service import SWEEP_EVERY_S, AgentProcess


def test_a_sweep_tidies_the_states_that_clients_read() -> None:
    done: list[tuple[str, float]] = []

    def swept(name: str) -> Any:
        return lambda *given: done.append((name, given[1] if len(given) > 1 else 0.0))

    now = [SWEEP_EVERY_S / 2]
    agent: Any = SimpleNamespace(
        _clock=SimpleNamespace(monotonic_s=lambda: now[0]), _swept=0.0,
        _config=SimpleNamespace(sweep_s=3600.0),
        _giving=SimpleNamespace(due=lambda **_: None),
        _server=SimpleNamespace(n_changes=0),
        runtime=SimpleNamespace(n_events=0, running_tasks=0),
        _locations=SimpleNamespace(datasets=list),
        _datasets=SimpleNamespace(sweep=swept("datasets")),
        _states=SimpleNamespace(tidy=lambda at: done.append(("states", at))),
        _spill=SimpleNamespace(sweep=swept("spill")),
        _copies=SimpleNamespace(sweep=swept("copies")),
    )  # fmt: skip
    AgentProcess._keep_house(agent)
    assert not done
    now[0] = SWEEP_EVERY_S + 1
    AgentProcess._keep_house(agent)
    assert ("states", SWEEP_EVERY_S + 1) in done
    assert {name for name, _ in done} == {"datasets", "states", "spill", "copies"}
