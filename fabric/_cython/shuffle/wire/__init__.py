"""The wire of the native data plane: headers, tickets, checks and errors, in C++."""
