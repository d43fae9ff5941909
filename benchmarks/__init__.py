"""What mqdssm costs, against raw ldap3 and OpenLDAP's own tools on the same server: `make bench`."""
