"""Plain words for operations and events in logs."""

import logging
import re
from typing import get_args

from mqdssm.engines.replication import actions
from mqdssm.engines.replication.operations import FindForeign
from mqdssm.engines.replication.plain_words import WORDS, describe_plainly
from mqdssm.store.damage_log import DamageLog
from mqdssm.store.performer import METHODS


def test_every_operation_and_event_has_words() -> None:
    assert set(METHODS) | set(get_args(actions.Event)) == WORDS.keys()
    assert len(set(WORDS.values())) == len(WORDS)
    assert not [words for words in WORDS.values() if re.search(r"[A-Z]", words)]


def test_a_log_has_words_instead_of_the_class(caplog) -> None:
    operation = FindForeign.__new__(FindForeign)
    with caplog.at_level(logging.ERROR):
        DamageLog().report(operation, "cn=x: no number")
    (text,) = caplog.messages
    assert text.startswith("looking for changes by other programs cannot be done, and is tried again later")
    assert describe_plainly(operation) in text
    assert "FindForeign" not in text
