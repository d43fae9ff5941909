"""Search filters as OpenLDAP's own library encodes them: what ldapsearch would send for the same text."""

import ctypes
import ctypes.util

import pytest
from hypothesis import given
from support.directory.filter_strategies import COMPARISONS, EXTENSIBLE, trees

from mqdssm.directory.filters import encode, parse_text, to_text

LBER_USE_DER = 1


class BerValue(ctypes.Structure):
    """``struct berval``."""

    _fields_ = (("size", ctypes.c_size_t), ("octets", ctypes.POINTER(ctypes.c_char)))


class LibLdap:
    """The filter compiler of libldap, which slapd and ldapsearch come with."""

    def __init__(self):
        names = [ctypes.util.find_library("ldap"), "libldap-2.5.so.0", "libldap.so.2"]
        self.ldap = self._first(names)
        self.lber = self._first([ctypes.util.find_library("lber"), "liblber-2.5.so.0", "liblber.so.2"])
        self.lber.ber_alloc_t.restype = ctypes.c_void_p
        self.lber.ber_alloc_t.argtypes = [ctypes.c_int]
        self.lber.ber_flatten2.argtypes = [ctypes.c_void_p, ctypes.POINTER(BerValue), ctypes.c_int]
        self.lber.ber_free.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.ldap.ldap_pvt_put_filter.argtypes = [ctypes.c_void_p, ctypes.c_char_p]

    @staticmethod
    def _first(names):
        for name in filter(None, names):
            try:
                return ctypes.CDLL(name)
            except OSError:
                continue
        raise AssertionError("libldap is not installed: it comes with the Debian package ldap-utils")

    def encode(self, text):
        """The filter's octets, or None when libldap refuses the text."""
        ber = self.lber.ber_alloc_t(LBER_USE_DER)
        try:
            if self.ldap.ldap_pvt_put_filter(ber, text.encode()) != 0:
                return None
            value = BerValue()
            assert self.lber.ber_flatten2(ber, ctypes.byref(value), 0) == 0
            return ctypes.string_at(value.octets, value.size)
        finally:
            self.lber.ber_free(ber, 1)


@pytest.fixture(scope="module")
def libldap():
    return LibLdap()


@given(trees(COMPARISONS | EXTENSIBLE))
def test_the_octets_that_ldapsearch_sends_for_the_same_text(libldap, search_filter):
    assert encode(search_filter) == libldap.encode(to_text(search_filter))


@pytest.mark.parametrize(
    "text",
    [
        "(cn=Babs Jensen)",
        "(&(objectClass=mSMQQueue)(|(a=b*)(!(c>=1))(d<=2)(e~=3)))",
        r"(objectGUID=\00\5c\2a\28\29\ff)",
        "(cn:dn:2.4.6.8.10:=x)",
        "(:caseExactMatch:=x)",
        "(cn=*a*b*)",
        "(cn=)",
        "(userAccountControl:1.2.840.113556.1.4.803:=2)",
    ],
)
def test_texts_that_people_type(libldap, text):
    assert encode(parse_text(text)) == libldap.encode(text)


@pytest.mark.parametrize("text", ["(cn", "(cn=\\zz)", "(&(a=b)", "(!)", "(=x)", "(c n=x)"])
def test_texts_that_both_refuse(libldap, text):
    assert libldap.encode(text) is None
    with pytest.raises(ValueError, match="no filter"):
        parse_text(text)
