"""Arrow Flight: descriptors, tickets, headers; server, client and transports between agents."""
