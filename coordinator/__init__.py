"""Imported as `fabric.coordinator`; the bare name is refused, because it would be a second module."""

if __name__ != "fabric.coordinator":
    raise ImportError("import fabric.coordinator instead of coordinator: this folder is part of the fabric package")
