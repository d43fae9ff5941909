#!/bin/sh
# Topics and rights of MSMQ's queues, made by mqdssm. names.json has the path names.
# Usage: BOOTSTRAP=broker:9092 KAFKA_BIN=/opt/kafka/bin sh create-topics.sh
set -eu
topic() {
    name=$1
    shift
    "${KAFKA_BIN:-.}/kafka-topics.sh" --bootstrap-server "$BOOTSTRAP" --create --if-not-exists \
        --topic "$name" --partitions 1 --replication-factor "${REPLICATION:-3}" "$@"
}
acl() {
    "${KAFKA_BIN:-.}/kafka-acls.sh" --bootstrap-server "$BOOTSTRAP" --add --allow-principal "User:$1" \
        --operation "$2" "--$3" "$4"
}
