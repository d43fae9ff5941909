"""Maps of SIDs: how they are read, and what they make of descriptors."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.errors import ConfigError
from mqdssm.pipeline.migrate import sids
from mqdssm.pipeline.migrate.sids import SidMap, SidRewriter, load_sid_map
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.sid import Sid

OLD, NEW = "S-1-5-21-1-2-3-1001", "S-1-5-21-7-8-9-2001"
TOML = f"""
[sids]
"{OLD}" = "{NEW}"
"S-1-5-21-1-2-3-1002" = "ann"
[domains]
"S-1-5-21-4-5-6" = "S-1-5-21-7-8-9"
"""


def file_of(folder, text, name="sids.toml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_both_forms_of_a_map(tmp_path):
    lines = f"old,new\n# retired\n\n{OLD.lower()}, {NEW}\nS-1-5-21-1-2-3-1002,ann\n"
    lines += "S-1-5-21-4-5-6,S-1-5-21-7-8-9\n"
    for path in (file_of(tmp_path, TOML), file_of(tmp_path, lines, "sids.csv")):
        found = load_sid_map(path)
        assert (found.sids, found.names) == ({OLD: NEW}, {"S-1-5-21-1-2-3-1002": "ann"})
        assert found.domains == {"S-1-5-21-4-5-6": "S-1-5-21-7-8-9"}
        assert len(found.sha256) == 64
        whole = found.resolve_names({"ann": "S-1-5-21-7-8-9-5"})
        assert whole.look_up(Sid("S-1-5-21-1-2-3-1002")) == Sid("S-1-5-21-7-8-9-5")
        assert whole.look_up(Sid("S-1-5-21-4-5-6-77")) == Sid("S-1-5-21-7-8-9-77")
        assert whole.look_up(Sid("S-1-5-21-1-2-3-9")) is None
        with pytest.raises(ConfigError, match="does not have: ann"):
            found.resolve_names({})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[sids]\nx = 'S-1-5-18'", r"\[sids\]: no SID: 'x'"),
        (f"[sids]\n'{OLD}' = 7", "needs a SID or the name of an account"),
        (f"[sids]\n'{OLD}' = 'S-1-5-x'", "no SID: 'S-1-5-x'"),
        (f"[sids]\n'{OLD}' = '{NEW}'\n'{OLD.lower()}' = '{NEW}'", "is there twice"),
        ("[domains]\n'S-1-5-21-1-2-3' = 'example'", "is a domain: it needs the SID of another one"),
        (f"[domains]\n'S-1-5-21-1-2-3' = '{NEW}'", "one is a domain, the other is an account"),
        ("[people]\na = 'b'", r"may hold the tables \[sids\] and \[domains\], not people"),
        ("[", "is no TOML"),
    ],
)
def test_maps_that_cannot_be_used(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        load_sid_map(file_of(tmp_path, text))


def test_lines_that_cannot_be_used(tmp_path):
    with pytest.raises(ConfigError, match="line 2: an old SID and what stands for it are expected"):
        load_sid_map(file_of(tmp_path, f"{OLD},{NEW}\n{OLD}\n", "sids.csv"))
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_sid_map(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_sid_map(tmp_path / "latin.csv")


def test_a_device_is_no_map(monkeypatch):
    monkeypatch.setattr(sids, "MAP_BYTES_MAX", 4096)
    with pytest.raises(ConfigError, match="/dev/zero is no map of SIDs: it is larger than 4096 bytes"):
        load_sid_map(Path("/dev/zero"))


def descriptor(*sids):
    owner, group, *others = sids
    listed = "".join(f"(A;;0x{number + 1:x};;;{sid})" for number, sid in enumerate(others))
    return bytes(SecurityDescriptor.from_sddl(f"O:{owner}G:{group}D:{listed}S:(AU;SA;0x1;;;{owner})"))


def test_every_place_in_a_descriptor():
    rewriter = SidRewriter(SidMap(sids={OLD: NEW}))
    other = "S-1-5-21-1-2-3-5"
    made = SecurityDescriptor.from_bytes(
        rewriter.rewrite_descriptor(descriptor(OLD, OLD, OLD, "S-1-1-0", other), "q")
    )
    assert made == SecurityDescriptor.from_bytes(descriptor(NEW, NEW, NEW, "S-1-1-0", other))
    assert rewriter.unmapped == {(other, "q"): 1}
    rewriter.rewrite_descriptor(descriptor(other, other, other), "q")
    rewriter.rewrite_descriptor(descriptor(other, other, other), "m")
    assert rewriter.unmapped == {(other, "q"): 5, (other, "m"): 4}
    assert rewriter.rewrite_sid(OLD, "u") == NEW
    assert rewriter.rewrite_sid("S-1-5-18", "u") == "S-1-5-18"
    assert ("S-1-5-18", "u") not in rewriter.unmapped


SIDS = st.sampled_from([OLD, NEW, "S-1-1-0", "S-1-5-32-544", "S-1-5-21-9-9-9-500"])


@given(st.lists(SIDS, min_size=2, max_size=6))
def test_nothing_to_replace_leaves_every_octet(sids):
    image = descriptor(*sids)
    assert SidRewriter(SidMap()).rewrite_descriptor(image, "q") is image


@given(st.lists(SIDS, min_size=2, max_size=6))
def test_the_way_there_and_back(sids):
    other = "S-1-5-21-6-6-6-6"
    there = SidRewriter(SidMap(sids={OLD: other})).rewrite_descriptor(descriptor(*sids), "q")
    back = SidRewriter(SidMap(sids={other: OLD})).rewrite_descriptor(there, "q")
    assert SecurityDescriptor.from_bytes(back) == SecurityDescriptor.from_bytes(descriptor(*sids))
