"""Real test servers for users of the library: a private slapd, and a pytest plugin that offers it."""
