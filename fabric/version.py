"""The release, for who may not import the whole of `fabric`: it names the client, too."""

__version__ = "0.1.0"
