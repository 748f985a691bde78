"""Kafka through confluent-kafka's public API: twins of the native reader and writer."""
