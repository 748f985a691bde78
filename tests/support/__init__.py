"""What tests and benchmarks share: oracles, generated plans, the simulator, whole fabrics."""
