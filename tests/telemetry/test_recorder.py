"""The memory of log lines stays small, whatever is logged."""

from __future__ import annotations

import json

from fabric.telemetry.logs import CHARS_MAX, JOBS_MAX, LINES_MAX, Recorder, lines_of, logger


def test_lines_and_jobs_are_bounded() -> None:
    recorder = Recorder()
    for n in range(LINES_MAX + 5):
        recorder.add({"event": "e", "job": "first", "n": n})
    lines = recorder.lines("first")
    assert [line["n"] for line in lines] == list(range(5, LINES_MAX + 5))
    for n in range(JOBS_MAX):
        recorder.add({"event": "x" * 10_000, "job": f"job-{n}", "what": object()})
    assert recorder.lines("first") == []
    assert len(recorder.lines("job-0")[0]["event"]) == CHARS_MAX
    json.dumps(recorder.lines("job-0"))
    recorder.add({"event": "no job"})
    recorder.add({"event": "no job", "job": 7})
    assert recorder.lines("") == []


def test_what_is_not_printed_is_kept_and_masked() -> None:
    log = logger("fabric.test")
    log.info("said", job="job-recorder", token="tell nobody", text="a\nb")
    try:
        raise ValueError("tell nobody")
    except ValueError as error:
        log.debug("failed", job="job-recorder", exc_info=error)
    said, failed = lines_of("job-recorder")
    assert (said["token"], said["text"], said["level"]) == ("***", "a\\nb", "info")
    assert "tell nobody" not in json.dumps(failed)
