"""Events of [MS-MQDSSM] 3.1.6 on an LDAP session, one module an event."""
