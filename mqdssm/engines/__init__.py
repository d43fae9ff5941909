"""Room for the sans-I/O protocol engines: step(event, now) -> actions (replication, notification, discovery)."""
