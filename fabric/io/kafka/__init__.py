"""Kafka as a source and sink, over the librdkafka that the confluent-kafka wheel carries."""
