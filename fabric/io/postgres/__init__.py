"""Tables of PostgreSQL as sinks; psycopg is imported when the first one is asked for."""
