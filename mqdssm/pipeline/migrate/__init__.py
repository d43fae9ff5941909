"""Migration of MQIS tables into a directory: make a plan, then apply it."""
