"""`LruCache`: the last few, and nothing large."""

from __future__ import annotations

from fabric.lru_cache import LruCache


def test_the_one_used_longest_ago_goes_first() -> None:
    known: LruCache[int] = LruCache(2)
    known.keep(b"a", 1)
    known.keep(b"b", 2)
    assert known.get(b"a") == 1
    known.keep(b"c", 3)
    assert (known.get(b"a"), known.get(b"b"), known.get(b"c")) == (1, None, 3)


def test_large_keys_are_not_remembered() -> None:
    known: LruCache[int] = LruCache(2)
    large = bytes(1 << 17)
    known.keep(large, 1)
    assert known.get(large) is None
