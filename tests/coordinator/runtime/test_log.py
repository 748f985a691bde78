"""What a coordinator says: everything to who configured logs, warnings to everybody."""

from __future__ import annotations

import pytest

from fabric.coordinator.runtime.log import say


def test_only_what_somebody_should_look_at_is_said_in_a_program(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say("checkpoint complete", {"job": "job-1", "checkpoint": 3})
    say("checkpoint aborted", {"job": "job-1", "why": "the job was cancelled"})
    assert capsys.readouterr().err == ""
    say("checkpoint failed", {"job": "job-1", "why": "the disk is full"})
    assert "why='the disk is full'" in capsys.readouterr().err
