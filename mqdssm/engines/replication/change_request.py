"""What somebody asks the authority of a partition for."""

from dataclasses import dataclass

from mqdssm.model.guid import Guid
from mqdssm.model.messages import Command, Properties, Scope
from mqdssm.model.propids import ObjectType


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A change that somebody asks for; see `ChangeObject` for the fields."""

    command: Command
    object_type: ObjectType
    path_name: str | None = None
    identifier: Guid | None = None
    properties: Properties = ()
    scope: Scope = Scope.ENTERPRISE
