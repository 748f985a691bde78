"""Sources and sinks, one folder or file a system, behind `sources`, `readers` and `sinks`."""
