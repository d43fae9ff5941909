"""Servers for tests, of this project and of programs that use it.

`OpenLdapServer` is a private OpenLDAP with the MSMQ schema, `SambaDomainController` a private domain
controller of Active Directory; `OpenLdapContainer` and `SambaContainer` are the same in a container.
`mqdssm.testing.plugin` offers them as pytest fixtures. These servers need Linux (or another Unix) and their
own software. The other parts need neither: the simulation of whole enterprises, the network of queue managers
in one process, and the directories in memory. Names are loaded when they are first used, because pytest loads
this package in every run.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqdssm.testing.containers import OpenLdapContainer
    from mqdssm.testing.openldap import OpenLdapServer
    from mqdssm.testing.samba import SambaDomainController
    from mqdssm.testing.samba_container import SambaContainer
    from mqdssm.testing.sandbox import SandboxState, sandbox_status, start_sandbox, stop_sandbox

__all__ = [
    "OpenLdapContainer",
    "OpenLdapServer",
    "SambaContainer",
    "SambaDomainController",
    "SandboxState",
    "sandbox_status",
    "start_sandbox",
    "stop_sandbox",
]

_MODULES = {
    "OpenLdapContainer": "mqdssm.testing.containers",
    "OpenLdapServer": "mqdssm.testing.openldap",
    "SambaContainer": "mqdssm.testing.samba_container",
    "SambaDomainController": "mqdssm.testing.samba",
    "SandboxState": "mqdssm.testing.sandbox",
    "sandbox_status": "mqdssm.testing.sandbox",
    "start_sandbox": "mqdssm.testing.sandbox",
    "stop_sandbox": "mqdssm.testing.sandbox",
}


if not TYPE_CHECKING:  # type checkers must still report misspelt names

    def __getattr__(name: str) -> object:
        """Load a public name at its first use."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
