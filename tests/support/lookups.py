"""Lookups as a task calls them."""

from __future__ import annotations

import asyncio
from typing import Any

from fabric.lookups import Lookup


def answers(lookup: Lookup, *given: Any) -> list[Any]:
    """What it answers, one call after the other; it is opened before, and closed after."""

    async def ask() -> list[Any]:
        await lookup.open()
        try:
            return [await lookup(one) for one in given]
        finally:
            await lookup.close()

    return asyncio.run(ask())
