"""Room for the sans-I/O engines: step(event, now) -> actions (replication, notification, discovery)."""
