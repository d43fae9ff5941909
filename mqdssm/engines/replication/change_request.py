"""Change of an object, as the authority of its partition is asked to make it."""

from dataclasses import dataclass

from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties, Scope
from mqdssm.model.propids import ObjectType


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A requested change; see `ChangeObject` for the fields."""

    command: Command
    object_type: ObjectType
    path_name: str | None = None
    identifier: Guid | None = None
    properties: Properties = ()
    scope: Scope = Scope.ENTERPRISE
