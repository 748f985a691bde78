from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from fabric.telemetry.logs import configure_logs


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs(stream)
    yield stream
    structlog.reset_defaults()


def test_one_line_an_event_and_no_secret(out: io.StringIO) -> None:
    structlog.get_logger().info("job", name="x\nlevel=info forged", api_token="tell nobody")
    (line,) = out.getvalue().splitlines()
    event = json.loads(line)
    assert event["name"] == "x\\nlevel=info forged"
    assert "tell nobody" not in line
    assert event["level"] == "info"
