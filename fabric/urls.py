"""URLs where the path of a file or folder is needed.

One job: which texts are URLs, and the sentence that refuses them, the same for readers, writers and
settings.
"""

from __future__ import annotations

import os
import re

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:/")


def scheme_of(path: str | os.PathLike[str]) -> str:
    """The scheme of a URL, also of one that was made a `Path` (which has one slash less); else "".

    >>> scheme_of("S3://bucket/x"), scheme_of("/data/x")
    ('s3', '')
    """
    text = str(path)
    return text.partition(":")[0].lower() if _URL.match(text) else ""


def unreachable(path: str | os.PathLike[str], what: str, way: str) -> str:
    """Why `what` can't use the URL `path`, and the `way` to do without."""
    return (
        f"{what} can't reach {path}: paths are of local or mounted file systems for now "
        f"(object stores come in a later release, together with savepoints); {way}"
    )


def unreachable_folder(path: str | os.PathLike[str], what: str) -> str:
    """Why `what` can't be a folder at the URL `path`; "" when it is none."""
    if not (scheme := scheme_of(path)):
        return ""
    if scheme == "file":
        way = f"write the path: {'/' + str(path).partition(':')[2].lstrip('/')!r}"
    else:
        way = "name a folder that all agents see, or mount the store there"
    return unreachable(path, what, way)
