"""The servers of a coordinator process: gRPC with its rights, REST and metrics beside it."""
