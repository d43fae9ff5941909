"""Migration of MQIS tables into a directory: plan what would happen, then apply it."""
