"""Queue names of every length and of every character, found where [MS-MQDSSM] 3.1.6.1.2.5 says they are.

Where a queue has to be is computed here from the text of that section (with decision M7 where it names
nothing legal), not by the code that is tested; it is looked for by ldbsearch.
"""

import string
import zlib
from collections.abc import Iterator
from itertools import product

import pytest
from support.servers.ad_world import Domain, own_domain

import mqdssm
from mqdssm.errors import GenericDirectoryError

LEGAL = sorted(set(map(chr, range(0x21, 0x80))) - set('"+,;\\'))
SPECIAL = "/#><="
HEAD, WHOLE, NEW_MAX, STORED_MAX, EXTENSION_MAX = 55, 63, 124, 147, 92
CASED = (54, 55, 56, 62, 63, 64, 124)
"""Lengths of names of which letters of both cases are tried."""
ALPHABET = string.ascii_lowercase + string.digits


@pytest.fixture(scope="module")
def domain() -> Iterator[Domain]:
    with own_domain() as made:
        yield made


@pytest.fixture(scope="module")
def computer(domain: Domain) -> str:
    return domain.queue_manager()[0]


def hashed(name: str) -> str:
    """2.2.5 by other means: its table is that of a CRC with the polynomial 0x9B619023; bit by bit."""
    value = 0
    for byte in name.lower().encode("utf-16-be"):
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x9B619023 if value & 1 else 0)
    return f"{value:08x}"


def place(name: str) -> tuple[str, str | None]:
    """The cn and the extension of a name of ASCII characters."""
    escaped = "".join("\\" + one if one in SPECIAL + "\n" else one for one in name)
    if len(escaped) <= WHOLE:
        return name, None
    head, rest = escaped[:HEAD], escaped[HEAD:]
    backslashes = len(head) - len(head.rstrip("\\"))
    if backslashes or len(rest) > EXTENSION_MAX:  # cut inside a pair, or too long: the bare name
        if len(name) <= WHOLE:
            return name, None
        return f"{name[:HEAD]}-{hashed(name)}", name[HEAD:]
    return f"{head.replace(chr(92), '')}-{hashed(escaped)}", rest


def filler(length: int, seed: int = 0) -> str:
    """Text of that length that differs from its neighbours early."""
    text = f"{seed:x}z{zlib.crc32(f'{length} {seed}'.encode()):x}"
    return (text + ALPHABET * 6)[:length]


def of_length(length: int) -> str:
    return filler(length, length) if length > 3 else "xyzw"[:length] if length > 1 else "v"


def of_both_cases(length: int) -> str:
    """Every second character is upper case, those around the cuts too."""
    text = filler(length, length)
    return "".join(one.upper() if place % 2 else one for place, one in enumerate(text))


def around_the_cuts() -> list[str]:
    """Names with a special character before, at and after each place where something is cut or counted.

    Each of the five, and runs of two, with the filler as long as the cut of the escaped name, of the bare
    one, the end of a whole name, and of the longest.
    """
    names: dict[str, None] = {}
    for where, special in product((53, 54, 55, 56, 61, 62, 63, 64), [*SPECIAL, "/#", "==", "<>"]):
        for total in (where + len(special), 70, NEW_MAX):
            head = filler(where - 1, where)
            name = (head + special + ALPHABET * 4)[:total]
            names[name] = None
    # backslashes themselves move the cut
    for count in (1, 5, 27, 28, 31, 32, 55, 62, 63, 64, 90):
        for special in SPECIAL:
            names[(special * count + filler(30, count))[:NEW_MAX]] = None
    return list(names)


def check(domain: Domain, computer: str, names: list[str]) -> None:
    """Created by us, each is at its place with its extension, reads back, is listed and is deleted."""
    directory, manager = domain.directory, f"CN=msmq,CN={computer},CN=Computers,{domain.root}"
    guids = {
        name: directory.create(mqdssm.Queue(pathname=f"{computer}\\{name}", label="named")) for name in names
    }
    stored = {}
    for entry in domain.tools.search("(mSMQLabelEx=named)", "cn", "mSMQQueueNameExt", base=manager).values():
        extension = entry.get("mSMQQueueNameExt")
        stored[entry["cn"][0].decode()] = None if extension is None else extension[0].decode()
    assert stored == dict(place(name) for name in names)
    listed = {
        queue.identifier: queue.pathname
        for queue in directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", "named"))
    }
    for name, guid in guids.items():
        path = f"{computer}\\{name}"
        assert (listed[guid] or "").lower() == path.lower()
        read = directory.read(
            mqdssm.Queue, mqdssm.Filter("Pathname", "==", path), attributes=["Identifier", "Pathname"]
        )
        assert (read.identifier, (read.pathname or "").lower()) == (guid, path.lower())
    assert len(listed) == len(guids)
    for name in names:
        directory.delete(mqdssm.Queue(pathname=f"{computer}\\{name}"))
    assert not domain.tools.search("(mSMQLabelEx=named)", "1.1", base=manager)


def read_made_by_others(domain: Domain, computer: str, names: list[str]) -> None:
    """Made by ldbadd at its place, each is found by its name, alone and in a list."""
    manager = f"CN=msmq,CN={computer},CN=Computers,{domain.root}"
    blocks = []
    for name in names:
        cn, extension = place(name)
        block = f"dn: CN={cn},{manager}\nobjectClass: mSMQQueue\nmSMQLabelEx: others\n"
        blocks.append(block if extension is None else f"{block}mSMQQueueNameExt: {extension}\n")
    domain.tools.add_text("\n".join(blocks))
    found = domain.directory.search(mqdssm.Queue, mqdssm.Filter("Label", "==", "others"))
    paths = {f"{computer}\\{name}".lower() for name in names}
    assert {(queue.pathname or "").lower() for queue in found} == paths
    for path in paths:
        read = domain.directory.read(
            mqdssm.Queue, mqdssm.Filter("Pathname", "==", path), attributes=["Pathname"]
        )
        assert (read.pathname or "").lower() == path
        domain.directory.delete(mqdssm.Queue(pathname=path))


@pytest.mark.spec("MS-MQDSSM 2.2.5")
@pytest.mark.parametrize("name", ["a", "abcdefghij" * 7])
def test_the_hash_that_is_counted_on_here(name: str) -> None:
    assert hashed(name) == mqdssm_hash(name)


def mqdssm_hash(name: str) -> str:
    from mqdssm.model.queuenames import hash_string

    return hash_string(name)


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
def test_lengths_where_something_changes(domain: Domain, computer: str) -> None:
    check(domain, computer, [of_length(n) for n in (1, 2, 54, 55, 56, 62, 63, 64, 65, 123, 124)])


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
def test_letters_of_both_cases(domain: Domain, computer: str) -> None:
    check(domain, computer, [string.ascii_uppercase, "MixedCase/Name#1", *(of_both_cases(n) for n in CASED)])


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.1")
def test_letters_of_both_cases_that_others_stored(domain: Domain, computer: str) -> None:
    read_made_by_others(domain, computer, [string.ascii_uppercase, *(of_both_cases(n) for n in CASED)])


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
def test_characters_that_somebody_escapes(domain: Domain, computer: str) -> None:
    check(domain, computer, [f"{one}a{one}b{one}" for one in "/#><=.*()&|\x7f'!%:?@[]^`{}~$"])


@pytest.mark.spec("MS-MQDSSM 3.1.6.1.2.5")
def test_specials_around_the_cuts(domain: Domain, computer: str) -> None:
    check(domain, computer, around_the_cuts()[::11])


@pytest.mark.spec("MS-MQDSSM 3.1.6.11.2.1")
def test_what_others_stored(domain: Domain, computer: str) -> None:
    names = [filler(length, length) for length in (1, 63, 64, 100, 124, 125, 146, 147)]
    read_made_by_others(domain, computer, names)


@pytest.mark.parametrize("length", [NEW_MAX + 1, STORED_MAX, STORED_MAX + 1])
def test_too_long_to_be_made(domain: Domain, computer: str, length: int) -> None:
    with pytest.raises((ValueError, GenericDirectoryError), match="124"):
        domain.directory.create(mqdssm.Queue(pathname=f"{computer}\\{filler(length)}"))


@pytest.mark.soak
@pytest.mark.parametrize("begin", range(1, NEW_MAX + 1, 31))
def test_every_length(domain: Domain, computer: str, begin: int) -> None:
    check(domain, computer, [of_length(n) for n in range(begin, min(begin + 31, NEW_MAX + 1))])


@pytest.mark.soak
def test_every_length_of_others(domain: Domain, computer: str) -> None:
    read_made_by_others(domain, computer, [of_length(n) for n in range(1, STORED_MAX + 1)])


@pytest.mark.soak
@pytest.mark.parametrize("shape", ["{}", "{}a", "a{}", "a{}b{}", "{}" + "a" * 70, "a" * 70 + "{}"])
def test_every_legal_character(domain: Domain, computer: str, shape: str) -> None:
    names = {shape.format(one, one).lower() for one in LEGAL}
    check(domain, computer, sorted(names))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_all_around_the_cuts(domain: Domain, computer: str, part: int) -> None:
    check(domain, computer, around_the_cuts()[part::4])
