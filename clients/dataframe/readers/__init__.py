"""Where frames begin: tables, files, Kafka topics and other streams."""
