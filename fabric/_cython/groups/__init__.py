"""Groups of rows by the values of their keys, numbered by Arrow's own grouper, in C++."""

from __future__ import annotations

import fabric._cython.shuffle  # noqa: F401  loads the libraries this package is linked with
