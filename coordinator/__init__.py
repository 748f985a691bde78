"""Imported as `fabric.coordinator`; the bare name would make a second module and is refused."""

if __name__ != "fabric.coordinator":
    raise ImportError("import fabric.coordinator instead: this folder is part of that package")
