"""A coordinator's memory in PostgreSQL 15 or newer, for several coordinators over one."""
