"""Where to look for changes: what each kind of server tells of them, as hints that are always verified."""
