"""Search filters: text and octets both ways, and the same octets as ldap3 2.9.1 where it is right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap3.operation.search import search_operation
from ldap3.protocol.rfc4511 import LDAPMessage, MessageID, ProtocolOp
from ldap3.utils.asn1 import encode as ldap3_encode
from support.directory.ber_reference import read_all, read_filter
from support.directory.filter_strategies import COMPARISONS, FILTERS, trees
from support.directory.search_requests import encode_search

from mqdssm.directory.filters import encode, parse_text, to_text
from mqdssm.directory.requests import SearchScope


@given(FILTERS)
def test_text_comes_back(search_filter):
    text = to_text(search_filter)
    assert parse_text(text) == search_filter
    assert text.isprintable()


@pytest.mark.slow
@given(FILTERS)
def test_octets_mean_the_filter(search_filter):
    (element,) = read_all(encode(search_filter))
    assert read_filter(element) == search_filter


# ldap3 writes the default FALSE of dnAttributes, which [RFC4511] 5.1 forbids: extensible ones are left out
@given(trees(COMPARISONS))
def test_the_octets_that_ldap3_sends_for_the_same_text(search_filter):
    request = search_operation("DC=x", to_text(search_filter), 2, 0, ["cn"], 0, 0, False, False, False, None)
    message = LDAPMessage()
    message["messageID"] = MessageID(9)
    message["protocolOp"] = ProtocolOp().setComponentByName("searchRequest", request)
    assert encode_search(9, "DC=x", SearchScope.SUBTREE, encode(search_filter), ["cn"]) == ldap3_encode(
        message
    )


@given(st.text(st.sampled_from("()*\\&|!=~<>: \0a2é"), max_size=30))
def test_any_text_is_a_filter_or_a_value_error(text):
    try:
        found = parse_text(text)
    except ValueError:
        return
    assert parse_text(to_text(found)) == found
    (element,) = read_all(encode(found))
    assert read_filter(element) == found
