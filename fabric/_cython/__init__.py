"""Native modules: Cython's faces of the C++ in `kernels` and `shuffle`.

One job of this module: say what to do where they are not built, or not for this Python.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from os import listdir, path

_FOLDER = path.dirname(__file__)


def refusal(folder: str = _FOLDER, suffix: str = EXTENSION_SUFFIXES[0]) -> str:
    """Why the native modules below `folder` can't be loaded by a Python whose modules end so.

    Empty when they can; nothing is built by importing.

    >>> refusal()
    ''
    """
    built = {name.partition(".")[2] for name in listdir(folder) if name.startswith("_utility.")}
    if suffix[1:] in built:
        return ""
    found = ", ".join(sorted(name for name in built if name.endswith("so")))
    what = f"was built for another Python ({found})" if found else "is not built"
    return (
        f"Fabric's native code in {folder} {what}, this one needs {suffix[1:]}: "
        "in a checkout run `make build` with this Python, else pip install flight-fabric"
    )


if _reason := refusal():
    raise ImportError(_reason)
