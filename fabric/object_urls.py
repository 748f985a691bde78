"""URLs of objects and of buckets: which paths are some, and what they name; nothing is asked.

Credentials are in no URL, see `object_store`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from fabric.errors import ConfigError
from fabric.values import scheme_of

SCHEMES = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}
"""Each with what the names of its variables begin with."""
_URL = re.compile(r"(s3|gs|az):/{1,2}([^/@?#\s]+)/?([^@?#]*)", re.IGNORECASE)
_OBJECT = re.compile(r"(s3|gs|az):/{1,2}([^/:@?#\s]+)(?:/+(.*))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """A bucket (in Azure: a container) and what the names of all objects in it begin with.

    >>> from pathlib import Path
    >>> ObjectUrl.of("s3://data/streams/"), str(ObjectUrl.of(Path("s3://data/streams")))
    (ObjectUrl(scheme='s3', bucket='data', prefix='streams'), 's3://data/streams')
    """

    scheme: str
    bucket: str
    prefix: str = ""

    @staticmethod
    def of(url: str | os.PathLike[str]) -> ObjectUrl:
        """Read one, also one that was made a `Path`; `ConfigError` when it is none."""
        found = _URL.fullmatch(os.fspath(url))
        prefix = found[3].strip("/") if found else ""
        if found is None or any(each in ("", ".", "..") for each in prefix.split("/") if prefix):
            raise ConfigError(
                "not a bucket URL: write s3://bucket/prefix, gs://bucket/prefix or "
                "az://container/prefix, without a user, a query or ..; credentials are taken from "
                "the environment"
            )
        return ObjectUrl(found[1].lower(), found[2], prefix)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


def split_url(url: str | os.PathLike[str]) -> tuple[str, str]:
    """The URL of a bucket, and the key of an object in it (or a prefix, or a pattern of keys).

    >>> split_url("S3://data/x/a?[1].csv"), split_url("az://data/")
    (('s3://data', 'x/a?[1].csv'), ('az://data', ''))
    """
    found = _OBJECT.fullmatch(os.fspath(url))
    key = (found[3] or "").rstrip("/") if found else ""
    if found is None or any(each in ("", ".", "..") for each in key.split("/") if key):
        raise ConfigError(
            "not the URL of an object: write s3://bucket/key, gs://bucket/key or "
            "az://container/key, without a user, //, . or ..; credentials are given in "
            "storage_options= or the environment"
        )
    return f"{found[1].lower()}://{found[2]}", key


def is_object_url(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the URL of an object store that Fabric knows.

    >>> is_object_url("s3://bucket/x"), is_object_url("/data"), is_object_url("hdfs://x/y")
    (True, False, False)
    """
    return scheme_of(path) in SCHEMES
