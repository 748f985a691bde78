// What is used of librdkafka: its types as they lie in memory, and a table of its functions.
//
// One job: call librdkafka without its headers and without being linked with it. The wheel of
// confluent-kafka carries the library under a name with a hash, loaded without putting its symbols
// in reach: `load` looks them up in the extension module that is linked with it. Layouts and
// numbers are those of rdkafka.h, which only ever adds to them within a major version.
//
// librdkafka - Apache Kafka C library
// Copyright (c) 2012-2022, Magnus Edenhill; 2023, Confluent Inc. All rights reserved.
// Redistribution and use in source and binary forms, with or without modification, are permitted
// provided that the conditions of its licence (BSD 2-clause) are met; it is in confluent-kafka's
// wheel. THIS SOFTWARE IS PROVIDED BY THE COPYRIGHT HOLDERS AND CONTRIBUTORS "AS IS", WITHOUT
// WARRANTY.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace fabric::kafka {

struct Client;  // rd_kafka_t, and so on: never looked into
struct Conf;
struct Queue;
struct Topic;
struct Headers;
struct ApiError;
struct GroupMetadata;
struct Event;
struct ConfigResource;
struct ConfigEntry;
struct AdminOptions;
struct DescribeConfigsResult;

struct Message {
  int err;
  Topic* topic;
  int32_t partition;
  void* payload;
  size_t length;
  void* key;
  size_t key_length;
  int64_t offset;
  void* opaque;
};

struct TopicPartition {
  char* topic;
  int32_t partition;
  int64_t offset;
  void* metadata;
  size_t metadata_size;
  void* opaque;
  int err;
  void* internal;
};

struct PartitionList {
  int n;
  int capacity;
  TopicPartition* items;
};

struct PartitionMetadata {
  int32_t id;
  int err;
  int32_t leader;
  int n_replicas;
  int32_t* replicas;
  int n_in_sync;
  int32_t* in_sync;
};

struct TopicMetadata {
  char* name;
  int n_partitions;
  PartitionMetadata* partitions;
  int err;
};

struct BrokerMetadata {
  int32_t id;
  char* host;
  int port;
};

struct Metadata {
  int n_brokers;
  BrokerMetadata* brokers;
  int n_topics;
  TopicMetadata* topics;
  int32_t origin_id;
  char* origin_name;
};

enum class Tag : int {
  end, topic_name, topic, partition, value, key, opaque, flags, timestamp, header, headers,
};

struct Tagged {  // rd_kafka_vu_t
  Tag tag;
  union {
    Topic* topic;
    int flags;
    int32_t partition;
    int64_t timestamp;
    struct {
      void* data;
      size_t size;
    } bytes;
    Headers* headers;
    char room[64];
  } as;
};
static_assert(sizeof(Tagged) == 72 && sizeof(Message) == 72 && sizeof(TopicPartition) == 64);

constexpr int PRODUCER = 0, CONSUMER = 1;            // rd_kafka_type_t
constexpr int CONF_OK = 0, CONF_UNKNOWN = -2;        // rd_kafka_conf_res_t
constexpr int FLAG_COPY = 0x2;                       // RD_KAFKA_MSG_F_COPY
constexpr int PURGE_QUEUED = 0x1, PURGE_IN_FLIGHT = 0x2;
constexpr int RESOURCE_TOPIC = 2, ADMIN_DESCRIBE_CONFIGS = 5;
constexpr int DESTROY_WITHOUT_CLOSE = 0x8;
constexpr int64_t OFFSET_INVALID = -1001;

// rd_kafka_resp_err_t: those that are told apart here; names of the others come from the library.
constexpr int NO_ERROR = 0, ERR_MSG_SIZE_TOO_LARGE = 10, ERR_UNKNOWN_TOPIC_OR_PART = 3;
constexpr int ERR_PARTITION_EOF = -191, ERR_UNKNOWN_TOPIC = -188, ERR_TIMED_OUT = -185;
constexpr int ERR_QUEUE_FULL = -184, ERR_PURGE_QUEUE = -152, ERR_PURGE_INFLIGHT = -151;
constexpr int ERR_FATAL = -150, ERR_INVALID_ARG = -186, ERR_STATE = -172, ERR_NOENT = -156;
constexpr int ERR_UNKNOWN_PARTITION = -190, ERR_TOPIC_DENIED = 29, ERR_CLUSTER_DENIED = 31;

constexpr int VERSION_MIN = 0x02080000;  // 2.8.0: older ones were never run
constexpr int VERSION_MAJOR = 2;

// Result, name behind "rd_kafka_", arguments; a trailing underscore is not part of the name.
#define FABRIC_KAFKA_FUNCTIONS(F)                                                                  \
  F(int, version, ())                                                                              \
  F(const char*, version_str, ())                                                                  \
  F(const char*, err2name, (int))                                                                  \
  F(const char*, err2str, (int))                                                                   \
  F(int, last_error, ())                                                                           \
  F(int, fatal_error, (Client*, char*, size_t))                                                    \
  F(int, error_code, (const ApiError*))                                                            \
  F(const char*, error_string, (const ApiError*))                                                  \
  F(int, error_is_fatal, (const ApiError*))                                                        \
  F(int, error_is_retriable, (const ApiError*))                                                    \
  F(int, error_txn_requires_abort, (const ApiError*))                                              \
  F(void, error_destroy, (ApiError*))                                                              \
  F(Conf*, conf_new, ())                                                                           \
  F(void, conf_destroy, (Conf*))                                                                   \
  F(int, conf_set, (Conf*, const char*, const char*, char*, size_t))                               \
  F(int, conf_get, (const Conf*, const char*, char*, size_t*))                                     \
  F(void, conf_set_opaque, (Conf*, void*))                                                         \
  F(void, conf_set_log_cb, (Conf*, void (*)(const Client*, int, const char*, const char*)))        \
  F(void, conf_set_error_cb, (Conf*, void (*)(Client*, int, const char*, void*)))                  \
  F(void, conf_set_stats_cb, (Conf*, int (*)(Client*, char*, size_t, void*)))                      \
  F(void, conf_set_dr_msg_cb, (Conf*, void (*)(Client*, const Message*, void*)))                   \
  F(void, conf_enable_sasl_queue, (Conf*, int))                                                    \
  F(ApiError*, sasl_background_callbacks_enable, (Client*))                                        \
  F(Client*, new_, (int, Conf*, char*, size_t)) /* `new` is C++'s */                       \
  F(void, destroy, (Client*))                                                                      \
  F(void, destroy_flags, (Client*, int))                                                           \
  F(void*, opaque, (const Client*))                                                                \
  F(int, poll, (Client*, int))                                                                     \
  F(int, poll_set_consumer, (Client*))                                                             \
  F(int, outq_len, (Client*))                                                                      \
  F(Queue*, queue_new, (Client*))                                                                  \
  F(Queue*, queue_get_main, (Client*))                                                             \
  F(Queue*, queue_get_consumer, (Client*))                                                         \
  F(Queue*, queue_get_partition, (Client*, const char*, int32_t))                                  \
  F(void, queue_forward, (Queue*, Queue*))                                                         \
  F(void, queue_cb_event_enable, (Queue*, void (*)(Client*, void*), void*))                        \
  F(void, queue_destroy, (Queue*))                                                                 \
  F(Event*, queue_poll, (Queue*, int))                                                             \
  F(ssize_t, consume_batch_queue, (Queue*, int, Message**, size_t))                                \
  F(void, message_destroy, (Message*))                                                             \
  F(int64_t, message_timestamp, (const Message*, int*))                                            \
  F(int32_t, message_leader_epoch, (const Message*))                                               \
  F(int, message_headers, (const Message*, Headers**))                                             \
  F(size_t, header_cnt, (const Headers*))                                                          \
  F(int, header_get_all, (const Headers*, size_t, const char**, const void**, size_t*))            \
  F(Headers*, headers_new, (size_t))                                                               \
  F(int, header_add, (Headers*, const char*, ssize_t, const void*, ssize_t))                       \
  F(void, headers_destroy, (Headers*))                                                             \
  F(PartitionList*, topic_partition_list_new, (int))                                               \
  F(TopicPartition*, topic_partition_list_add, (PartitionList*, const char*, int32_t))             \
  F(void, topic_partition_list_destroy, (PartitionList*))                                          \
  F(int32_t, topic_partition_get_leader_epoch, (const TopicPartition*))                            \
  F(void, topic_partition_set_leader_epoch, (TopicPartition*, int32_t))                            \
  F(ApiError*, incremental_assign, (Client*, const PartitionList*))                                \
  F(ApiError*, incremental_unassign, (Client*, const PartitionList*))                              \
  F(int, get_watermark_offsets, (Client*, const char*, int32_t, int64_t*, int64_t*))               \
  F(int, query_watermark_offsets, (Client*, const char*, int32_t, int64_t*, int64_t*, int))        \
  F(int, offsets_for_times, (Client*, PartitionList*, int))                                        \
  F(int, commit, (Client*, const PartitionList*, int))                                             \
  F(int, committed, (Client*, PartitionList*, int))                                                \
  F(Topic*, topic_new, (Client*, const char*, void*))                                              \
  F(void, topic_destroy, (Topic*))                                                                 \
  F(const char*, topic_name, (const Topic*))                                                       \
  F(int, metadata, (Client*, int, Topic*, const Metadata**, int))                                  \
  F(void, metadata_destroy, (const Metadata*))                                                     \
  F(int, produce_batch, (Topic*, int32_t, int, Message*, int))                                     \
  F(ApiError*, produceva, (Client*, const Tagged*, size_t))                                        \
  F(int, flush, (Client*, int))                                                                    \
  F(int, purge, (Client*, int))                                                                    \
  F(ApiError*, init_transactions, (Client*, int))                                                  \
  F(ApiError*, begin_transaction, (Client*))                                                       \
  F(ApiError*, commit_transaction, (Client*, int))                                                 \
  F(ApiError*, abort_transaction, (Client*, int))                                                  \
  F(ApiError*, send_offsets_to_transaction,                                                        \
    (Client*, const PartitionList*, const GroupMetadata*, int))                                    \
  F(GroupMetadata*, consumer_group_metadata_new, (const char*))                                    \
  F(void, consumer_group_metadata_destroy, (GroupMetadata*))                                       \
  F(AdminOptions*, AdminOptions_new, (Client*, int))                                               \
  F(int, AdminOptions_set_request_timeout, (AdminOptions*, int, char*, size_t))                    \
  F(void, AdminOptions_destroy, (AdminOptions*))                                                   \
  F(ConfigResource*, ConfigResource_new, (int, const char*))                                       \
  F(void, ConfigResource_destroy, (ConfigResource*))                                               \
  F(void, DescribeConfigs, (Client*, ConfigResource**, size_t, const AdminOptions*, Queue*))       \
  F(const DescribeConfigsResult*, event_DescribeConfigs_result, (Event*))                          \
  F(const ConfigResource**, DescribeConfigs_result_resources,                                      \
    (const DescribeConfigsResult*, size_t*))                                                       \
  F(const ConfigEntry**, ConfigResource_configs, (const ConfigResource*, size_t*))                 \
  F(int, ConfigResource_error, (const ConfigResource*))                                            \
  F(const char*, ConfigEntry_name, (const ConfigEntry*))                                           \
  F(const char*, ConfigEntry_value, (const ConfigEntry*))                                          \
  F(int, event_error, (Event*))                                                                    \
  F(void, event_destroy, (Event*))

struct Api {
#define FABRIC_KAFKA_MEMBER(result, name, arguments) result(*name) arguments = nullptr;
  FABRIC_KAFKA_FUNCTIONS(FABRIC_KAFKA_MEMBER)
#undef FABRIC_KAFKA_MEMBER
};

// The library's functions. Calling one before `load` has succeeded ends the process.
const Api& api();

// Find librdkafka behind the library at `path`, which may be loaded already: the file that Python
// imported as confluent_kafka.cimpl. Empty on success, else why not. Again: nothing.
std::string load(const char* path);

// Its version, for example "2.16.0"; empty before `load`.
std::string version();

// Its builtin.features: "gzip,snappy,ssl,…"; empty before `load`.
std::string features();

}  // namespace fabric::kafka
