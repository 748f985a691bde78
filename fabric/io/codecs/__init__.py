"""Row formats: what a record's bytes mean, for Kafka, files and calls alike."""
