"""Faust copies a topic; runs in its own environment, nothing of Fabric can be imported."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from typing import Any


def main() -> None:
    """Say ``first`` and ``done`` (peers.py)."""
    import faust

    asked = json.loads(sys.argv[1])
    app = faust.App(
        f"faust-{secrets.token_hex(4)}",
        broker=f"kafka://{asked['servers']}",
        broker_commit_interval=asked["interval_s"],
        consumer_auto_offset_reset="earliest",
        producer_compression_type="lz4",
        producer_linger=0.005,
        stream_publish_on_commit=True,  # else offsets may go ahead of rows
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
    )
    out = app.topic(asked["out"], key_serializer="raw", value_serializer="json")
    read = app.topic(asked["topic"], key_serializer="raw", value_serializer="json")

    async def copy(stream: Any) -> None:
        sent = list[Any]()
        async for key, row in stream.items():
            if not sent:
                print("first", flush=True)
            sent.append(await out.send(key=key, value=row))
            if len(sent) == asked["rows"]:
                app.loop.create_task(tell(sent))

    async def tell(sent: list[Any]) -> None:
        await asyncio.wait(sent)
        print("done", flush=True)

    app.agent(read)(copy)
    app.worker_init()
    faust.Worker(app, loglevel="ERROR", redirect_stdouts=False).execute_from_commandline()


if __name__ == "__main__":
    main()
