"""LDAP schema-mapping bridge between MSMQ and Active Directory ([MS-MQDSSM]).

The public names are loaded when they are first used: importing the package costs little, and neither
pyspark nor the command line's libraries are touched.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mqdssm.errors import AttributeNotFound as AttributeNotFound
    from mqdssm.errors import ConfigError as ConfigError
    from mqdssm.errors import DecodeError as DecodeError
    from mqdssm.errors import DirectoryError as DirectoryError
    from mqdssm.errors import DirectoryNotConnected as DirectoryNotConnected
    from mqdssm.errors import EndOfData as EndOfData
    from mqdssm.errors import GenericDirectoryError as GenericDirectoryError
    from mqdssm.errors import MappingError as MappingError
    from mqdssm.errors import MqdssmError as MqdssmError
    from mqdssm.errors import ObjectAlreadyExists as ObjectAlreadyExists
    from mqdssm.errors import ObjectChanged as ObjectChanged
    from mqdssm.errors import ObjectNotFound as ObjectNotFound
    from mqdssm.errors import OutcomeUnknown as OutcomeUnknown
    from mqdssm.events.bulk_changes import ElementOutcome as ElementOutcome
    from mqdssm.events.facade import Directory as Directory
    from mqdssm.events.facade import connect as connect
    from mqdssm.events.iterators import Handle as Handle
    from mqdssm.events.pages import SearchPage as SearchPage
    from mqdssm.events.watching.watch import Watch as Watch
    from mqdssm.model.base import DirectoryObject as DirectoryObject
    from mqdssm.model.elements import ConnectedNetwork as ConnectedNetwork
    from mqdssm.model.elements import Enterprise as Enterprise
    from mqdssm.model.elements import Queue as Queue
    from mqdssm.model.elements import QueueManager as QueueManager
    from mqdssm.model.elements import RoutingLink as RoutingLink
    from mqdssm.model.elements import Site as Site
    from mqdssm.model.elements import User as User
    from mqdssm.model.enums import DirectoryOperationResult as DirectoryOperationResult
    from mqdssm.model.enums import DirectoryServerType as DirectoryServerType
    from mqdssm.model.enums import OperatingSystemType as OperatingSystemType
    from mqdssm.model.enums import PrivacyLevel as PrivacyLevel
    from mqdssm.model.expressions import Condition as Condition
    from mqdssm.model.filters import Filter as Filter
    from mqdssm.model.filters import SortKey as SortKey
    from mqdssm.model.names import PathName as PathName
    from mqdssm.model.names import parse_format_name as parse_format_name
    from mqdssm.model.notice import Notice as Notice
    from mqdssm.model.watching import UNKNOWN as UNKNOWN
    from mqdssm.model.watching import AttributeChange as AttributeChange
    from mqdssm.model.watching import ChangeEvent as ChangeEvent
    from mqdssm.model.watching import ObjectChange as ObjectChange
    from mqdssm.wire.certificates import UserSignCerts as UserSignCerts
    from mqdssm.wire.dtyp import SecurityDescriptor as SecurityDescriptor
    from mqdssm.wire.keys import PublicKeys as PublicKeys
    from mqdssm.wire.sddl import RightsStyle as RightsStyle
    from mqdssm.wire.sid import Sid as Sid

_MODULES: Final[dict[str, tuple[str, ...]]] = {
    "mqdssm.errors": (
        "AttributeNotFound",
        "ConfigError",
        "DecodeError",
        "DirectoryError",
        "DirectoryNotConnected",
        "EndOfData",
        "GenericDirectoryError",
        "MappingError",
        "MqdssmError",
        "ObjectAlreadyExists",
        "ObjectChanged",
        "ObjectNotFound",
        "OutcomeUnknown",
    ),
    "mqdssm.events.bulk_changes": ("ElementOutcome",),
    "mqdssm.events.facade": ("Directory", "connect"),
    "mqdssm.events.iterators": ("Handle",),
    "mqdssm.events.pages": ("SearchPage",),
    "mqdssm.events.watching.watch": ("Watch",),
    "mqdssm.model.base": ("DirectoryObject",),
    "mqdssm.model.elements": (
        "ConnectedNetwork",
        "Enterprise",
        "Queue",
        "QueueManager",
        "RoutingLink",
        "Site",
        "User",
    ),
    "mqdssm.model.enums": (
        "DirectoryOperationResult",
        "DirectoryServerType",
        "OperatingSystemType",
        "PrivacyLevel",
    ),
    "mqdssm.model.expressions": ("Condition",),
    "mqdssm.model.filters": ("Filter", "SortKey"),
    "mqdssm.model.names": ("PathName", "parse_format_name"),
    "mqdssm.model.notice": ("Notice",),
    "mqdssm.model.watching": ("UNKNOWN", "AttributeChange", "ChangeEvent", "ObjectChange"),
    "mqdssm.wire.certificates": ("UserSignCerts",),
    "mqdssm.wire.dtyp": ("SecurityDescriptor",),
    "mqdssm.wire.keys": ("PublicKeys",),
    "mqdssm.wire.sddl": ("RightsStyle",),
    "mqdssm.wire.sid": ("Sid",),
}
_HOMES: Final = {name: module for module, names in _MODULES.items() for name in names}

__version__: Final = "0.1.0"
__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604


if not TYPE_CHECKING:  # who misspells a name is to be told

    def __getattr__(name: str) -> object:
        """Load a public name when it is first asked for."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
