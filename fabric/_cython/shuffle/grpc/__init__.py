"""The gRPC inside pyarrow's wheel, of which Fabric knows the shapes, in C++."""

from __future__ import annotations

from fabric._cython.shuffle import wire as _wire  # loads the libraries that extensions here need

__all__: list[str] = []
del _wire
