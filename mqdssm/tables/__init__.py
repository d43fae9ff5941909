"""What is known about attributes, as rows: the one table everything else is derived from."""
