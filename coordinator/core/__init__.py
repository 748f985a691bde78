"""The coordinator as a pure state machine: events in, effects out.

Nothing here does I/O, starts threads, reads a clock or draws random numbers; whatever is iterated
has an order. Production drives it with gRPC and real time (`fabric.coordinator.runtime.runtime`), a
simulator drives the very same object.
"""
