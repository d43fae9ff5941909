"""Commands about single objects: create, read, list, write, delete, resolve."""
