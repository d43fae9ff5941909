"""Attribute-filter expressions and sort orders.

See [MS-MQDMPR] 3.1.7.1.20-21 and [MS-MQDSSM] 3.1.6.4.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

Operator = Literal["==", "!=", "<", "<=", ">", ">="]
OPERATORS: Final[frozenset[str]] = frozenset(get_args(Operator))


@dataclass(frozen=True, slots=True)
class Filter:
    """One attribute-filter expression ([MS-MQDMPR] 3.1.7.1.20).

    Several expressions in a list must all hold.

    Attributes:
        attribute: the specification's name of the attribute, as ``"Label"``.
        operator: one of ``== != < <= > >=``.
        value: the abstract value to compare with, as the attribute of the element holds it.

    Raises:
        ValueError: an unknown operator.
    """

    attribute: str
    operator: Operator
    value: Any

    def __post_init__(self) -> None:
        if self.operator not in OPERATORS:
            raise ValueError(f"{self.operator!r} is no filter operator: use one of == != < <= > >=")


@dataclass(frozen=True, slots=True)
class SortKey:
    """One attribute-sort-order value ([MS-MQDSSM] 3.1.6.4).

    Attributes:
        attribute: the specification's name of the attribute.
        priority: keys of a higher priority decide first; 0 means that the key is not used.
        ascending: smallest value first.

    Raises:
        ValueError: a negative priority.
    """

    attribute: str
    priority: int = 1
    ascending: bool = True

    def __post_init__(self) -> None:
        if self.priority < 0:
            raise ValueError(f"sort priority of {self.attribute} is {self.priority}: use 0 or more")
