"""Conditions made of the attributes of classes."""

import copy
import pickle
from uuid import UUID

import pytest

from mqdssm import Condition, DirectoryObject, Filter, Queue, QueueManager, Site
from mqdssm.model.elements import ELEMENTS
from mqdssm.model.expressions import (
    AllOf,
    AnyOf,
    Existence,
    ListAttribute,
    Opposite,
    Pattern,
    TextAttribute,
    ValueComparison,
)


def compared(name: str, sign, value) -> ValueComparison[Queue]:
    return ValueComparison(Queue, Filter(name, sign, value))


def test_every_attribute_of_every_element_is_an_expression_of_the_class_and_a_value_of_an_element():
    for element in ELEMENTS.values():
        for field, name in zip(element.model_fields, element.adm_names(), strict=True):
            assert repr(getattr(element, field)) == f"{element.__name__}.{name}"
            assert getattr(element(), field) == element.model_fields[field].default


def test_comparisons():
    assert (Queue.quota == 5) == compared("Quota", "==", 5)
    assert (Queue.quota != 5) == compared("Quota", "!=", 5)
    assert (Queue.quota < 5) == compared("Quota", "<", 5) == (5 > Queue.quota)  # noqa: SIM300
    assert (Queue.quota <= 5) == compared("Quota", "<=", 5)
    assert (Queue.quota > 5) == compared("Quota", ">", 5)
    assert (Queue.quota >= 5) == compared("Quota", ">=", 5)
    assert Queue.quota.in_([1, 2]) == AnyOf((compared("Quota", "==", 1), compared("Quota", "==", 2)))
    assert Queue.label.exists() == Existence(Queue, "Label")
    assert Queue.label.startswith("a") == Pattern(Queue, "Label", ("a", ""))
    assert Queue.label.endswith("a") == Pattern(Queue, "Label", ("", "a"))
    assert Queue.label.contains("a") == Pattern(Queue, "Label", ("", "a", ""))
    one = UUID(int=1)
    assert repr(QueueManager.site_identifier_list.contains(one)) == (
        "QueueManager.SiteIdentifierList == UUID('00000000-0000-0000-0000-000000000001')"
    )


def test_joined_conditions_do_not_nest_and_bind_as_python_does():
    a, b, c = Queue.label == "a", Queue.quota > 1, Queue.journaling
    is_journaling = compared("Journaling", "==", True)
    assert (a & b & c) == AllOf((a, b, is_journaling))
    assert (a | b | c) == AnyOf((a, b, is_journaling))
    assert (a & b | ~c) == AnyOf((AllOf((a, b)), Opposite(is_journaling)))
    assert AllOf((a,)) != AnyOf((a,))
    assert (
        repr(Queue.label.startswith("Paid") & (Queue.quota > 1000) | ~Queue.transactional)
        == "((Queue.Label like 'Paid*' and Queue.Quota > 1000) or not (Queue.Transactional == True))"
    )


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda: not (Queue.quota > 5), "join them with & | ~"),
        (lambda: not Queue.label, "Queue.Label: conditions have no truth value"),
        (lambda: (Queue.quota > 5) and Queue.journaling, "join them with & | ~"),
        (lambda: 1 < Queue.quota < 5, "join them with & | ~"),
        (lambda: Queue.label in ("a", "b"), "join them with & | ~"),
        (lambda: Queue.journaling & Queue.quota > 5, "unsupported operand"),
        (lambda: Queue.journaling & True, "unsupported operand"),
        (lambda: Queue.pathname == None, r"use exists\(\) or ~exists\(\)"),  # noqa: E711
        (lambda: Queue.quota == Queue.journal_quota, "compared with values only"),
        (lambda: Queue.label.in_("ab"), "give a list of values"),
        (lambda: Queue.label.startswith(5), "give a text to look for, not 5"),
        (lambda: QueueManager.site_identifier_list.contains([UUID(int=1)]), "give one item"),
        (lambda: Queue.journaling < True, "not supported"),
    ],
)
def test_mistakes_are_told_at_once(mistake, words):
    with pytest.raises(TypeError, match=words):
        mistake()


@pytest.mark.parametrize("look", [Queue.label.startswith, Queue.label.endswith, Queue.label.contains])
def test_an_empty_text_cannot_be_looked_for(look):
    with pytest.raises(ValueError, match="Label: the text to look for is empty"):
        look("")


def test_names_that_are_none():
    with pytest.raises(AttributeError):
        _ = Queue.lable
    assert not hasattr(DirectoryObject, "identifier")  # which element's?
    assert isinstance(Site.name, TextAttribute)
    assert isinstance(QueueManager.site_identifier_list, ListAttribute)


def test_elements_are_as_they_were():
    queue = Queue(label="x", quota=5)
    assert pickle.loads(pickle.dumps(queue)) == copy.deepcopy(queue) == queue
    assert list(Queue.model_fields)[:2] == ["identifier", "label"]
    assert Queue.model_fields["label"].default == ""
    assert queue.model_dump(exclude_unset=True) == {"label": "x", "quota": 5}


def test_a_class_of_a_user_has_its_own_fields():
    class Order(Queue):
        label: str = "order"  # type: ignore[assignment]  # for type checkers a descriptor

    assert Order().label == "order"
    assert Order.quota.exists() == Existence(Order, "Quota")
    assert Order(quota=3).quota == 3
    assert Queue().label == ""


def test_conditions_are_values():
    condition: Condition[Queue] = (Queue.quota > 5) & ~Queue.label.contains("x")
    assert pickle.loads(pickle.dumps(condition)) == condition
    assert len({condition, (Queue.quota > 5) & ~Queue.label.contains("x"), Queue.quota > 5}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Queue.label)
