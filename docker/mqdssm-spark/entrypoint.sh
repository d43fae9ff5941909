#!/bin/bash
# What a container of mqdssm-spark becomes; the first argument says it:
#   master               a stand-alone cluster's master: port 7077, its pages on 8080
#   worker spark://…     a worker of it; SPARK_WORKER_CORES, SPARK_WORKER_MEMORY
#   driver ARGUMENTS     Kubernetes, cluster mode: spark-submit in client mode
#   executor             Kubernetes: an executor; its settings are variables that Spark sets
#   anything else        mqdssm with these arguments
set -eu

run_class() { exec "$SPARK_HOME/bin/spark-class" "$@"; }

java_options() { # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, … in their order
    local number=0 name
    options=()
    while name="SPARK_JAVA_OPT_$number" && [ -n "${!name+set}" ]; do
        options+=("${!name}")
        number=$((number + 1))
    done
}

become_executor() {
    local options
    java_options
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" \
        -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID:-0}" --podName "${SPARK_EXECUTOR_POD_NAME:-}"
}

case "${1:-}" in
    master)
        shift
        run_class org.apache.spark.deploy.master.Master --host "${SPARK_MASTER_HOST:-$(hostname -i)}" --port 7077 "$@"
        ;;
    worker)
        shift
        run_class org.apache.spark.deploy.worker.Worker --host "${SPARK_WORKER_HOST:-$(hostname -i)}" \
            --work-dir "${SPARK_WORKER_DIR:-/tmp/spark-work}" "$@"
        ;;
    driver)
        shift
        exec "$SPARK_HOME/bin/spark-submit" \
            --conf "spark.driver.bindAddress=${SPARK_DRIVER_BIND_ADDRESS:-0.0.0.0}" --deploy-mode client "$@"
        ;;
    executor) become_executor ;;
    *) exec mqdssm "$@" ;;
esac
