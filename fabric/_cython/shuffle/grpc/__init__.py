"""The gRPC inside pyarrow's wheel, of which Fabric knows the shapes, in C++."""
