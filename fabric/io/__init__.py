"""Sources and sinks: tables in `sources`, streams in `readers`, targets in `sinks`.

The module of each has the name of its class on the wire; what it needs of a system lies in a folder
beside them.
"""
