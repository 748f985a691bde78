"""Groups of rows by the values of their keys, numbered by Arrow's own grouper, in C++."""

import fabric._cython.shuffle.wire  # noqa: F401  loads the libraries this package is linked with
