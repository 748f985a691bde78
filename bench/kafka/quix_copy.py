"""Quix Streams copies a topic; runs in its own environment, nothing of Fabric can be imported."""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any


def main() -> None:
    """Say ``first`` and ``done`` (peers.py)."""
    from quixstreams import Application

    asked = json.loads(sys.argv[1])
    app = Application(
        broker_address=asked["servers"],
        consumer_group=f"quix-{secrets.token_hex(4)}",
        auto_offset_reset="earliest",
        auto_create_topics=False,
        commit_interval=asked["interval_s"],
        processing_guarantee=asked["guarantee"],
        producer_extra_config={"compression.type": "lz4", "linger.ms": 5},
        loglevel="ERROR",
    )
    seen = False

    def watched(row: Any) -> Any:
        nonlocal seen
        if not seen:
            seen = True
            print("first", flush=True)
        return row

    frame = app.dataframe(app.topic(asked["topic"], value_deserializer="json"))
    frame.apply(watched).to_topic(app.topic(asked["out"], value_serializer="json"))
    app.run(count=asked["rows"], timeout=30, collect=False)
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
