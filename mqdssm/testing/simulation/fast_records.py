"""Faster creation of frozen records, for processes that run many seeds.

A run creates so many messages, operations and actions that the `__init__` of frozen dataclasses took an
eighth of its time. In these processes the classes are not frozen: mypy and all other processes check that
nothing changes a record.
"""

import sys
from dataclasses import fields, is_dataclass
from typing import Any, Final

from mqdssm.model.frozen_records import SOURCE_NAME, make_init

_PACKAGE: Final = "mqdssm."
_GENERATED: Final = "<string>"  # file name of the code that `dataclasses` makes


def replace_constructors() -> list[type]:
    """Replace `__init__` of all frozen dataclasses with slots that are loaded.

    Returns these classes.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.startswith(_PACKAGE)]
    classes = {
        value: None for module in modules for value in vars(module).values() if isinstance(value, type)
    }
    records = [record for record in classes if _is_plain_record(record)]
    for record in records:
        _allow_assignment(record)
    return records


def _allow_assignment(record: type) -> None:
    """Let `__init__` assign attributes."""
    if fields(record):
        type.__setattr__(record, "__init__", make_init(record, is_frozen=False))
    for name in ("__setattr__", "__delattr__"):
        type.__delattr__(record, name)


def _is_plain_record(record: type) -> bool:
    """Return True for a frozen dataclass with slots whose `__init__` was generated."""
    if not record.__module__.startswith(_PACKAGE) or not is_dataclass(record):
        return False
    parameters: Any = getattr(record, "__dataclass_params__")  # noqa: B009  no attribute in the stubs
    code = getattr(vars(record).get("__init__"), "__code__", None)
    has_slots = all(hasattr(getattr(record, field.name, None), "__set__") for field in fields(record))
    is_generated = code is not None and code.co_filename in {_GENERATED, SOURCE_NAME}
    return parameters.frozen and "__setattr__" in vars(record) and has_slots and is_generated
