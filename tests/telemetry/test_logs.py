"""Logs: one line an event, no secrets, no values of variables, and structlog stays the user's."""

from __future__ import annotations

import io
import json

import pytest
import structlog

from fabric.telemetry.logs import bind_process, configure_logs, logger


def fail(password: str) -> None:
    try:
        raise ValueError("it broke")
    except ValueError as error:
        logger("fabric.test").error("a task failed", exc_info=error)


def test_one_line_an_event_and_no_secret() -> None:
    out = io.StringIO()
    configure_logs(out)
    logger("fabric.test").info("job", name="x\nlevel=info forged", api_token="tell nobody")
    fail("tell nobody")
    job, failure = map(json.loads, out.getvalue().splitlines())
    assert job["name"] == "x\\nlevel=info forged"
    assert "tell nobody" not in out.getvalue()
    assert (job["level"], job["logger"]) == ("info", "fabric.test")
    assert failure["exception"].endswith("ValueError: it broke")


def test_an_event_is_written_in_one_piece() -> None:
    """Or threads write into each other's lines."""
    written: list[str] = []

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            return len(text)

    configure_logs(Stream())
    for n in range(3):
        logger("fabric.test").info("job", n=n)
    assert [json.loads(text)["n"] for text in written] == [0, 1, 2]
    assert all(text.endswith("}\n") for text in written)


def test_a_guest_says_only_warnings_and_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    logger("fabric.test").info("not heard")
    fail("tell nobody")
    said = capsys.readouterr()
    assert said.out == ""
    assert "a task failed" in said.err
    assert "ValueError: it broke" in said.err
    for unwanted in ("not heard", "tell nobody", "locals", "╭", "\x1b"):
        assert unwanted not in said.err


def test_the_users_configuration_is_neither_used_nor_changed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    theirs = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(theirs))
    try:
        before = structlog.get_config()
        configure_logs(io.StringIO())
        logger("fabric.test").error("ours")
        assert structlog.get_config() == before
        assert theirs.getvalue() == ""
    finally:
        structlog.reset_defaults()


def test_every_line_of_a_process_says_whose_it_is() -> None:
    out = io.StringIO()
    configure_logs(out)
    bind_process(agent="agent-1")
    logger("fabric.test").info("one")
    logger("fabric.test").info("two", agent="agent-2")
    said = [json.loads(line)["agent"] for line in out.getvalue().splitlines()]
    assert said == ["agent-1", "agent-2"]
