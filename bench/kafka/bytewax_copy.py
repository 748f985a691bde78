"""Bytewax copies a topic; runs in its own environment, nothing of Fabric can be imported."""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    """Say ``first`` and ``done`` (peers.py)."""
    from bytewax import operators as op
    from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource
    from bytewax.dataflow import Dataflow
    from bytewax.testing import run_main

    asked = json.loads(sys.argv[1])
    seen = False

    def copied(message: Any) -> Any:
        nonlocal seen
        if not seen:
            seen = True
            print("first", flush=True)
        return KafkaSinkMessage(message.key, json.dumps(json.loads(message.value)).encode())

    flow = Dataflow("copy")
    servers = [asked["servers"]]
    read = op.input("read", flow, KafkaSource(servers, [asked["topic"]], tail=False))
    settings = {"compression.type": "lz4", "linger.ms": "5"}
    op.output("write", op.map("copy", read, copied), KafkaSink(servers, asked["out"], settings))
    run_main(flow)
    print("done", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
