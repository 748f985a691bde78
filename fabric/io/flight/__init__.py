"""Any Arrow Flight server as a source or target."""
