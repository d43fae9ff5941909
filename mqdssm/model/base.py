"""Base class of all elements of the abstract model.

See [MS-MQDMPR] 3.1.1 and decision M45.
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from mqdssm.model.expressions import attribute_of
from mqdssm.model.fieldtypes import OptionalGuid, make_refusal
from mqdssm.model.memory import Memory

_NOTHING: frozenset[str] = frozenset()
_NO_VALUES: dict[str, Any] = {}  # never changed: an assignment makes another one
_set = object.__setattr__


def adm(name: str, default: object = None) -> Any:
    """Declare a field that holds an attribute of the specification.

    Not ``Field(alias=...)``: type checkers would accept only the alias as the name of the argument, and
    refuse the usual form ``Queue(label=...)``.

    Args:
        name: the specification's name of the attribute, in JSON and as another name of the argument.
        default: the value of the field while the attribute is not populated.
    """
    return Field(default=default, validation_alias=name, serialization_alias=name)


if TYPE_CHECKING:

    class _Model(BaseModel):
        """Base of elements."""

else:
    _is_making: Final = ContextVar("_is_making", default=False)

    class _ElementType(type(BaseModel)):
        """Type of elements (decision M111).

        ``Queue.label`` is an expression for conditions. A class that is being made has no expressions:
        pydantic would take them for defaults.
        """

        def __new__(mcs, *args: Any, **kwargs: Any) -> type:
            token = _is_making.set(True)
            try:
                return super().__new__(mcs, *args, **kwargs)
            finally:
                _is_making.reset(token)

        def __getattr__(cls, name: str) -> Any:
            adm = cls.__dict__.get("_adm_by_field", {}).get(name)
            if adm is None or _is_making.get():
                return super().__getattr__(name)
            return attribute_of(cls, adm, cls.model_fields[name].annotation)

    class _Model(BaseModel, metaclass=_ElementType):
        """Base of elements."""


class DirectoryObject(_Model):
    """Base of all elements: an object and the set of its populated attributes.

    An attribute that was never set reads as the default of the specification and is *not populated*: it is
    never written. An assignment of any value populates it. An object that was read from a directory
    also records the later assignments (M45).

    Fields are in snake_case; the specification's names are their aliases, and both are accepted.

    Attributes:
        element_name: the name of the element in the specification, as ``"Queue"``.
        unsupported_names: attributes that Active Directory does not have; their use is a GenericError.
    """

    model_config = ConfigDict(
        populate_by_name=True,
        validate_assignment=True,
        extra="forbid",
        protected_namespaces=(),
        loc_by_alias=True,
    )

    element_name: ClassVar[str] = "DirectoryObject"
    unsupported_names: ClassVar[frozenset[str]] = frozenset()

    _fields_by_adm: ClassVar[dict[str, str]] = {}
    _adm_by_field: ClassVar[dict[str, str]] = {}
    _defaults: ClassVar[dict[str, Any]] = {}

    _assigned: frozenset[str] = PrivateAttr(default=_NOTHING)  # names of fields, of those taken out too
    _was_read: bool = PrivateAttr(default=False)
    _replaced: dict[str, Any] = PrivateAttr(default=_NO_VALUES)  # field -> value before the first assignment
    _original_identifier: UUID | None = PrivateAttr(default=None)

    identifier: OptionalGuid = adm("Identifier")  # each element repeats it, for type checkers

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Build the tables of names and defaults of one element, once."""
        cls.element_name = cls.__name__
        cls._adm_by_field = {name: str(field.serialization_alias) for name, field in cls.model_fields.items()}
        cls._fields_by_adm = {adm: name for name, adm in cls._adm_by_field.items()}
        cls._defaults = {name: field.default for name, field in cls.model_fields.items()}

    # -- names ------------------------------------------------------------------------------------

    @classmethod
    def adm_names(cls) -> tuple[str, ...]:
        """Return the specification's names of all attributes, in its order.

        The order is that of [MS-MQDSSM] 3.1.6.20.
        """
        return tuple(cls._fields_by_adm)

    @classmethod
    def field_name(cls, adm: str) -> str:
        """Return the field of an attribute of the specification.

        ``"Label"`` gives ``"label"``.

        Raises:
            ValueError: there is no such attribute; the message names the likely one.
        """
        field = cls._fields_by_adm.get(adm)
        if field is None:
            raise ValueError(cls._explain_no_attribute(adm))
        return field

    @classmethod
    def adm_name(cls, field: str) -> str:
        """Return the specification's name of a field: ``"label"`` gives ``"Label"``.

        Raises:
            ValueError: there is no such field; the message names the likely one.
        """
        adm = cls._adm_by_field.get(field)
        if adm is None:
            raise ValueError(cls._explain_no_attribute(field, cls._adm_by_field))
        return adm

    @classmethod
    def _explain_no_attribute(cls, name: str, choices: Iterable[str] | None = None) -> str:
        from difflib import get_close_matches  # noqa: PLC0415  only needed for a mistake

        names = list(cls._fields_by_adm if choices is None else choices)
        plain_name = name.lower().replace("_", "")
        plain = {each.lower().replace("_", ""): each for each in names}
        close = [each for each in plain if plain_name and plain_name in each] or get_close_matches(
            plain_name, plain, 1
        )
        hint = f": did you mean {plain[min(close, key=len)]}?" if close else f"; it has {', '.join(names)}"
        return f"{cls.element_name} has no attribute {name!r}{hint}"

    # -- making -----------------------------------------------------------------------------------

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, data: Any) -> Any:
        """Refuse an unknown attribute, and name the likely one.

        pydantic's own message would not name it.
        """
        if isinstance(data, dict):
            for name in data:
                if name not in cls._fields_by_adm and name not in cls._adm_by_field:
                    raise make_refusal(cls._explain_no_attribute(str(name)))
        return data

    @classmethod
    def from_directory(cls, values: dict[str, Any], original_identifier: UUID | None = None) -> Self:
        """Make an element from values that a directory holds, without validation.

        Every object can be read therefore.

        Args:
            values: field name -> value, already of the field's type; exactly these are populated.
            original_identifier: see the property.
        """
        element = cls.__new__(cls)
        _set(element, "__dict__", cls._defaults | values)
        _set(element, "__pydantic_fields_set__", set(values))
        _set(element, "__pydantic_extra__", None)
        private = {
            "_assigned": _NOTHING,
            "_was_read": True,
            "_replaced": _NO_VALUES,
            "_original_identifier": original_identifier,
        }
        _set(element, "__pydantic_private__", private)
        return element

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Make an element from its JSON form.

        Values that came out of a directory and were not assigned since are taken as they are.

        Raises:
            ValueError: no JSON, an unknown attribute, or a value that an attribute does not accept.
        """
        if (memory := Memory.read_json(text)) is None:
            return cls.model_validate_json(text)
        obj = cls.model_validate_json(memory.rest, context=memory)
        values = {name: obj.__dict__[name] for name in obj.model_fields_set}
        read = cls.from_directory(values, memory.original_identifier)
        read.mark_written(memory.assigned)
        return read

    def to_json(self, *, memory: bool = True) -> str:
        """Return the JSON form: the populated attributes under the specification's names.

        Args:
            memory: of an object that was read, add ``Assigned``, the names of the attributes that were
                assigned or unset since, and ``OriginalIdentifier`` if there is one: `from_json` then makes an
                object that can be written like this one.
        """
        text = self.model_dump_json(by_alias=True, exclude_unset=True)
        if not memory or not self._was_read:
            return text
        return Memory.add(text, self.assigned, self._original_identifier)

    # -- what is populated, what was assigned -----------------------------------------------------

    @property
    def populated(self) -> frozenset[str]:
        """The specification's names of the attributes that have been set."""
        names = self._adm_by_field
        return frozenset([names[field] for field in self.model_fields_set])

    def is_populated(self, adm: str) -> bool:
        """Return True if an attribute, by the specification's name, has been set.

        Raises:
            ValueError: there is no such attribute.
        """
        return self.field_name(adm) in self.model_fields_set

    @property
    def was_read(self) -> bool:
        """True if the object came from a directory, or was written to one."""
        return self._was_read

    @property
    def original_identifier(self) -> UUID | None:
        """GUID of the object in its former directory, if it was not kept (M37).

        `identifier` is the GUID in this directory; a look-up by Identifier finds the object by both.
        """
        return self._original_identifier

    @property
    def assigned(self) -> frozenset[str]:
        """Attributes that a write without a list sends.

        The attributes are those assigned or unset since the read, else all set.
        """
        if not self._was_read:
            return self.populated
        names = self._adm_by_field
        return frozenset([names[field] for field in self._assigned])

    def values_when_read(self) -> dict[str, Any]:
        """Return the values that the directory held when the object was read or written.

        Returns:
            The specification's name -> value; None if the attribute was not populated. Attributes that were
            neither populated nor assigned are left out.

        Raises:
            ValueError: the object was never read, or its JSON form does not have the old value of an
                attribute that was assigned since.
        """
        if not self._was_read:
            raise ValueError(f"this {self.element_name} was never read")
        names, replaced = self._adm_by_field, self._replaced
        if unknown := sorted(names[field] for field in self._assigned if field not in replaced):
            raise ValueError(f"the value that {', '.join(unknown)} had when it was read is not known")
        values = {field: self.__dict__[field] for field in self.model_fields_set - replaced.keys()}
        return {names[field]: value for field, value in (values | replaced).items()}

    def unset(self, adm: str) -> None:
        """Make an attribute unpopulated: it reads as its default.

        Of an object that was read or written, the next write removes the value from the directory.

        Raises:
            ValueError: there is no such attribute.
        """
        self._forget_value(self.field_name(adm))

    def forget(self, adm: str) -> None:
        """Make an attribute unpopulated, as if it had not been read.

        A write leaves it alone.

        Raises:
            ValueError: there is no such attribute.
        """
        field = self.field_name(adm)
        self._forget_value(field)
        self._assigned -= {field}
        self._replaced = {name: value for name, value in self._replaced.items() if name != field}

    def mark_written(self, remaining: Iterable[str] = ()) -> None:
        """Record that the directory holds the values of this object.

        No attribute counts as assigned any more.

        Args:
            remaining: the specification's names of unsent attributes: a later write has to send them.
        """
        self._assigned = frozenset(map(self.field_name, remaining))
        self._replaced = {name: value for name, value in self._replaced.items() if name in self._assigned}
        self._was_read = True

    def mark_created(
        self,
        identifier: UUID,
        *,
        outdated: Iterable[str] = (),
        left: Iterable[str] = (),
        original_identifier: UUID | None = None,
    ) -> None:
        """Record that a directory has created an object from this element.

        Args:
            identifier: objectGUID of the new object.
            outdated: the specification's names of attributes that servers compute: no longer populated.
            left: as in `mark_written`.
            original_identifier: see the property.
        """
        for name in outdated:
            self.forget(name)
        self.__dict__["identifier"] = identifier
        self.model_fields_set.add("identifier")
        self._original_identifier = original_identifier
        self.mark_written(left)

    def _forget_value(self, field: str) -> None:
        self._replaced = self._keep_replaced(field)
        self.__dict__[field] = self._defaults[field]
        self.model_fields_set.discard(field)
        self._assigned = self._assigned | {field} if self._was_read else self._assigned - {field}

    def _keep_replaced(self, field: str) -> dict[str, Any]:
        """Return the replaced values with that of a field that is assigned now."""
        if not self._was_read or field in self._assigned:
            return self._replaced
        return {**self._replaced, field: self.__dict__[field] if field in self.model_fields_set else None}

    # -- Python's own ways ------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._adm_by_field:
            replaced = self._keep_replaced(name)
            super().__setattr__(name, value)
            self._replaced = replaced
            self._assigned |= {name}
        elif name[:1] == "_":
            super().__setattr__(name, value)
        else:
            raise ValueError(self._explain_no_attribute(name, self._adm_by_field))

    def __delattr__(self, name: str) -> None:
        if name not in self._adm_by_field:
            raise ValueError(self._explain_no_attribute(name, self._adm_by_field))
        self._forget_value(name)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, DirectoryObject):
            return NotImplemented
        fields = self.model_fields_set
        return fields == other.model_fields_set and all(
            self.__dict__[field] == other.__dict__[field] for field in fields
        )

    __hash__ = None  # type: ignore[assignment]  # elements change

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        fields = self.model_fields_set
        return [(name, self.__dict__[name]) for name in self._adm_by_field if name in fields]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; the updated values are validated and count as assigned."""
        copied = super().model_copy(deep=deep)
        for name, value in (update or {}).items():
            setattr(copied, name, value)
        return copied
