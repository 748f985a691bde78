"""A columnar Kafka client without the GIL, over the librdkafka of confluent-kafka's wheel."""
