"""The contract of the stores of the replication engine, and the stores that it is run on."""
