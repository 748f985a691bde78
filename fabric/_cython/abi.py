"""Which pyarrow the native data plane was compiled against.

One job: say it, and say clearly when another one is installed; loads nothing, so that ``fabric
doctor`` can ask too.
"""

from __future__ import annotations

BUILT_FOR = "25.0"
"""The pyarrow minor whose C++ ABI the native code was compiled against."""


def refusal(version: str) -> str:
    """Why the data plane can't run with pyarrow `version`; empty when it can.

    >>> refusal("25.0.7"), refusal("26.1.0")[:52]
    ('', 'pyarrow 26.1.0 is installed; Fabric was built for 25')
    """
    if version.rsplit(".", 1)[0] == BUILT_FOR:
        return ""
    return (
        f"pyarrow {version} is installed; Fabric was built for {BUILT_FOR}.x: "
        f"pip install 'pyarrow=={BUILT_FOR}.*'"
    )
