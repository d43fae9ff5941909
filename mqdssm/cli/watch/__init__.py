"""``mqdssm watch``: changes of a directory as they happen."""
