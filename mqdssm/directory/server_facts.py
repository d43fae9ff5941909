"""Expected configuration of each kind of server, with hints, for ``mqdssm doctor``."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """Expected configuration of the servers of a profile.

    Attributes:
        size_limit: entries that a search returns where nobody configured anything: fewer prove nothing.
        references: what brings referenced objects along with a page, for people.
        references_hint: what to do where it is missing.
        watched_by: OID of a control that tells changes -> what it is called.
        watch_hint: why changes cannot be watched where none of them is there.
        index_place: DN and attribute of the configured indexes; None: such servers do not show them, or
            have those that are needed from the beginning.
        index_hint: what to do when looking up by GUID is slow.
        change_number: an attribute of the root whose value is the same on all servers in the same state;
            None: there is none.
        schema_hint: what to do when the schema is not as it must be.
        tree_hint: what to do when an object is missing that every event needs; {root} is the forest's root.
        naming_hint: what to do when the root DSE does not name the naming contexts.
        descriptor_hint: what to do when the enterprise shows no security descriptor.
    """

    size_limit: int
    references: str
    references_hint: str
    watched_by: Mapping[str, str]
    watch_hint: str
    index_place: tuple[str, str] | None = None
    index_hint: str
    change_number: str | None = None
    schema_hint: str
    tree_hint: str
    naming_hint: str
    descriptor_hint: str
