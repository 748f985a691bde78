"""Sources and sinks, one folder or file a system, behind `registry` and `sinks`."""
