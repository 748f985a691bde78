"""Arrow Flight: descriptors, tickets, headers; server, client and transports between agents."""

import fabric.flight.errors  # noqa: F401  # how the native data plane raises and tells errors
