"""The release of this package, as agents and coordinators compare it."""

__version__ = "0.1.0"
