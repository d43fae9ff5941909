"""The replication store on an LDAP directory.

See [MC-MQDSRP] 3.1.1.2 and [MS-MQDS] 3.1.6.3-3.1.6.10.
"""

from mqdssm.store.ldap.directory_owner import Owner
from mqdssm.store.ldap.store import LdapStore

__all__ = ["LdapStore", "Owner"]
