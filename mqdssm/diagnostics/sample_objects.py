"""Objects on which rights are checked: one of each class.

The objects are of one computer if possible.
"""

from collections.abc import Callable, Mapping
from typing import Final

from mqdssm.directory.filters import And, Equal, LdapFilter
from mqdssm.directory.session import Session
from mqdssm.errors import ObjectNotFound
from mqdssm.events.context import Context
from mqdssm.events.facade import Directory
from mqdssm.events.machines import find_machine
from mqdssm.model.dn import DN
from mqdssm.model.elements import Queue
from mqdssm.model.filters import Filter
from mqdssm.tables.places import enterprise_dn, queue_manager_of, search_base
from mqdssm.wire.sid import Sid

QUEUE_SEPARATOR: Final = "\\"


class Samples:
    """Sample objects for checking rights, each searched on first use.

    A queue determines its queue manager, that its computer and its objects in a site; the user is the bound
    one. Other samples are the first object of their class.
    """

    def __init__(
        self, session: Session, at: str | None = None, chosen: Mapping[str, DN | None] | None = None
    ) -> None:
        r"""Initialize without searching.

        Args:
            session: with the directory.
            at: a computer, or ``computer\queue``; None: any.
            chosen: class -> the object to look at, None for none, whatever else there is.
        """
        self._session = session
        self._at = at
        self._dn_by_class: dict[str, DN | None] = dict(chosen or {})
        self._finders: Mapping[str, Callable[[], DN | None]] = {
            "mSMQQueue": self._find_queue,
            "mSMQConfiguration": self._find_manager,
            "computer": self._find_computer,
            "mSMQSettings": self._find_settings,
            "server": self._find_server,
            "serversContainer": self._find_servers,
            "site": self._find_site,
            "sitesContainer": lambda: session.naming.configuration.child("CN", "Sites"),
            "mSMQEnterpriseSettings": self._locate_enterprise,
            "user": self._find_user,
        }

    def of_class(self, ldap_class: str) -> DN | None:
        """Return the sample object of a class; None if this user can see none.

        Raises:
            ObjectNotFound: the computer or queue that was asked for does not exist.
            DirectoryError: the directory cannot be searched.
        """
        if ldap_class not in self._dn_by_class:
            find = self._finders.get(ldap_class, lambda: self._find_first(ldap_class))
            self._dn_by_class[ldap_class] = find()
        return self._dn_by_class[ldap_class]

    # -- one finder for each class

    def _find_queue(self) -> DN | None:
        if self._at is None:
            return self._find_first("mSMQQueue")
        if QUEUE_SEPARATOR in self._at:
            return self._find_wanted_queue(self._at)
        manager = self.of_class("mSMQConfiguration")
        return None if manager is None else self._find_first("mSMQQueue", manager)

    def _find_wanted_queue(self, path: str) -> DN:
        queue = Directory(self._session).read(
            Queue, Filter("Pathname", "==", path), attributes=["Identifier", "FullPath"]
        )
        return DN.parse(queue.full_path or "")

    def _find_manager(self) -> DN | None:
        if self._at is not None and QUEUE_SEPARATOR not in self._at:
            computer = self.of_class("computer")
            return None if computer is None else self._find_existing(queue_manager_of(computer))
        queue = self.of_class("mSMQQueue")
        return self._find_first("mSMQConfiguration") if queue is None else queue.parent

    def _find_computer(self) -> DN | None:
        if self._at is not None and QUEUE_SEPARATOR not in self._at:
            return find_machine(Context(self._session), self._at).dn
        manager = self.of_class("mSMQConfiguration")
        return self._find_first("computer") if manager is None else manager.parent

    def _find_settings(self) -> DN | None:
        computer = self.of_class("computer")
        if computer is None:
            return None
        for server in self._servers_of(computer):
            dn = self._find_first("mSMQSettings", server)
            if dn is not None:
                return dn
        return None

    def _find_server(self) -> DN | None:
        settings, computer = self.of_class("mSMQSettings"), self.of_class("computer")
        if settings is not None:
            return settings.parent
        if computer is None:
            return None
        return next(iter(self._servers_of(computer)), None)

    def _servers_of(self, computer: DN) -> list[DN]:
        sites = self._session.naming.configuration.child("CN", "Sites")
        named = And((Equal("objectClass", b"server"), Equal("cn", computer.name.encode())))
        return self._find_dns(sites, named)

    def _find_servers(self) -> DN | None:
        site = self.of_class("site")
        return None if site is None else self._find_existing(site.child("CN", "Servers"))

    def _find_site(self) -> DN | None:
        server = self.of_class("server")
        return self._find_first("site") if server is None else server.parent.parent

    def _locate_enterprise(self) -> DN:
        naming = self._session.naming
        return enterprise_dn(naming.forest, naming.configuration)

    def _find_user(self) -> DN | None:
        sid, users = self._session.bound_sid(), self._session.profile.build_class_filter("user")
        if sid is None:
            return self._find_first("user")
        search_filter = And((users, Equal("objectSid", bytes(Sid.parse(sid)))))
        dns = self._find_dns(self._session.naming.default, search_filter)
        return dns[0] if dns else self._find_first("user")

    # -- the directory

    def _find_first(self, ldap_class: str, base: DN | None = None) -> DN | None:
        naming = self._session.naming
        if base is None and ldap_class in {"mSMQSiteLink", "site"}:
            base = search_base(ldap_class, naming.forest, naming.configuration)
        search_filter = self._session.profile.build_class_filter(ldap_class)
        return next(iter(self._find_dns(base or naming.root, search_filter, at_most=1)), None)

    def _find_dns(self, base: DN, search_filter: LdapFilter, at_most: int = 100) -> list[DN]:
        names: list[DN] = []
        entries = self._session.find(base, search_filter, ["cn"], page_size=min(at_most, 100))
        try:
            for entry in entries:
                names.append(entry.name)
                if len(names) == at_most:
                    break
        except ObjectNotFound:  # the base is hidden, or missing
            return []
        finally:
            getattr(entries, "close", lambda: None)()
        return names

    def _find_existing(self, dn: DN) -> DN | None:
        try:
            self._session.get(dn, ["objectClass"])
        except ObjectNotFound:
            return None
        return dn
