"""Imported as `fabric.clients`; the bare name is refused, because it would be a second module."""

if __name__ != "fabric.clients":
    raise ImportError(
        "import fabric.clients instead of clients: this folder is part of the fabric package"
    )
