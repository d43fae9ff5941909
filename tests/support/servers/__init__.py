"""LDAP servers and other programs that tests start, tools that look at them, and bad networks."""
