"""Buckets of the object store that a run of the tests shares; `bucket` in conftest makes them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from fabric.object_store import Bucket
from tests.services.versitygw import environment, object_store


def new_bucket(patch: pytest.MonkeyPatch) -> Path:
    """The folder of a new bucket, whose name is its own; this process has the credentials."""
    address, folder = object_store()
    for name, value in environment(address).items():
        patch.setenv(name, value)
    made = folder / f"b{uuid.uuid4().hex[:12]}"
    made.mkdir()
    return made


def url_of(bucket: Path, key: str = "") -> str:
    """The URL of an object, or of the bucket."""
    return f"s3://{bucket.name}/{key}"


def put(bucket: Path, key: str, data: bytes) -> str:
    """Have the store hold an object; returns its URL."""
    Bucket(url_of(bucket)).put(key, data)
    return url_of(bucket, key)


def unfinished(bucket: Path) -> list[Path]:
    """Parts of uploads that were neither completed nor aborted."""
    return [path for path in bucket.glob(".sgwtmp/multipart/**/*") if path.is_file()]


def keys(bucket: Path) -> list[str]:
    """Of all objects, hidden ones, too."""
    found = (path.relative_to(bucket) for path in bucket.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != ".sgwtmp")
