"""States on disk: RocksDB, snapshotted by hard links."""
