"""Bounds of slices: evenly over the keys, in bounded memory, and none where keys are hidden."""

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.directory.entries import Entry
from mqdssm.directory.filters import Equal, LdapFilter, to_text
from mqdssm.directory.profile import Profile
from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import GenericDirectoryError, ObjectNotFound
from mqdssm.model.dn import DN
from mqdssm.pipeline.frames.columns import FRAME_TYPES
from mqdssm.pipeline.frames.partitions import SAMPLE_MAX, Sample, SearchSlice, divide_objects


@given(st.sets(st.integers(1, 2**63)), st.integers(1, 9))
def test_every_key_is_in_one_slice(keys: set[int], count: int) -> None:
    sample = Sample()
    sample.take(b"%d" % key for key in keys)
    bounds = [int(bound) for bound in sample.choose_bounds(count)]
    assert bounds == sorted(set(bounds))
    assert len(bounds) < count
    ends = [0, *bounds, 2**64]
    sizes = [sum(low <= key < high for key in keys) for low, high in pairwise(ends)]
    assert sum(sizes) == len(keys)
    assert max(sizes) - min(sizes) <= 1 or len(keys) < count


def test_many_keys_are_thinned_out_evenly() -> None:
    sample = Sample()
    many = 5 * SAMPLE_MAX
    sample.take(b"%d" % key for key in range(many))
    sample.take(b"%d" % key for key in range(many, 2 * many))
    (middle,) = sample.choose_bounds(2)
    assert abs(int(middle) - many) < many / 1000


def test_a_hidden_key_is_noticed() -> None:
    sample = Sample()
    sample.take([b"1", b"2"])
    assert not sample.hidden
    sample.take([b"3", None])
    assert sample.hidden


def test_ends_of_slices() -> None:
    assert SearchSlice("ldap://a").ldap_filter is None
    middle = SearchSlice("ldap://a", "uSNCreated", b"5", b"9").ldap_filter
    assert middle is not None
    assert to_text(middle) == "(&(uSNCreated>=5)(!(uSNCreated>=9)))"


class Told:
    """A session that tells keys, and remembers what it was asked: what real servers do not let us hide.

    Attributes:
        keys: base -> the keys of what is below it; no other base exists.
        asked: base and filter of each search.
        name: what the server calls itself.
    """

    server_url = "ldap://contoso.test"
    profile: Profile = PROFILES["activedirectory"]
    options = SimpleNamespace(naming_context=None)
    naming = SimpleNamespace(
        root=DN.parse("DC=a"), guid_bases=(DN.parse("DC=a"), DN.parse("CN=Configuration,DC=a"))
    )

    def __init__(self, name: bytes | None, **keys: Sequence[int | None]) -> None:
        self.name = name
        self.keys = dict(zip(map(str, self.naming.guid_bases), keys.values(), strict=False))
        self.asked: list[tuple[str, str]] = []

    @property
    def session(self) -> "Told":
        return self

    def rows(self, base: DN, wanted: LdapFilter, columns: Sequence[str]):
        assert columns == ["uSNCreated"]
        self.asked.append((str(base), to_text(wanted)))
        if str(base) not in self.keys:
            raise ObjectNotFound("nothing is there")
        return ((f"CN={key}", None if key is None else b"%d" % key) for key in self.keys[str(base)])

    def get(self, name: str, attributes: Sequence[str]) -> Entry:
        assert (name, attributes) == ("", ["dsServiceName"])
        return Entry("", {} if self.name is None else {"dsservicename": [self.name]})


def split(told: Told, count: int = 2, **options) -> list[SearchSlice]:
    return divide_objects(told, FRAME_TYPES["ldap"], count, **options)


def test_bounds_lie_between_the_keys_of_all_places() -> None:
    told = Told(b"CN=DC1", domain=[9, 10, 11], configuration=[100])
    assert split(told) == [
        SearchSlice(told.server_url, "uSNCreated", None, b"11", b"CN=DC1"),
        SearchSlice(told.server_url, "uSNCreated", b"11", None, b"CN=DC1"),
    ]
    assert [base for base, _ in told.asked] == ["DC=a", "CN=Configuration,DC=a"]


def test_only_what_is_wanted_is_counted() -> None:
    told = Told(None, domain=[1, 2])
    assert len(split(told, where=Equal("cn", b"x"), base="DC=a")) == 2
    assert told.asked == [("DC=a", "(cn=x)")]


def test_a_place_that_is_not_there_has_no_keys() -> None:
    assert len(split(Told(None, domain=[1, 2]))) == 2
    assert split(Told(None)) == [SearchSlice(Told.server_url, "uSNCreated")]
    with pytest.raises(ObjectNotFound, match="the base of the search is not there"):  # somebody named it
        split(Told(None), base="DC=a")


@pytest.mark.parametrize("hidden", [[1, 2, None, 4], [None, 2, 3]])
def test_one_search_reads_all_where_keys_are_hidden(hidden: list[int | None]) -> None:
    """A filter by an attribute that the user may not see finds nothing, negated or not."""
    assert split(Told(b"CN=DC1", domain=hidden, configuration=[5, 6])) == [SearchSlice(Told.server_url)]


def test_one_slice_needs_no_look_at_the_directory() -> None:
    told = Told(b"CN=DC1", domain=[1, 2])
    assert split(told, 1) == [SearchSlice(told.server_url)]
    assert not told.asked


def test_bounds_of_one_controller_are_not_used_at_another() -> None:
    first, other = Told(b"CN=DC1", domain=[1, 2]), Told(b"CN=DC2", domain=[7, 8])
    (one, _) = split(first)
    one.refuse_other(first)
    for wrong in (other, Told(None)):
        with pytest.raises(GenericDirectoryError, match=r"before to CN=DC1, by whose uSNCreated"):
            one.refuse_other(wrong)


def test_servers_that_share_their_keys_may_take_turns() -> None:
    (one, _) = split(Told(None, domain=[1, 2]))
    one.refuse_other(Told(b"CN=DC2"))
