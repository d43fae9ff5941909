"""Declarations of `mqdssm sync`: the YAML file, its mistakes, and declared rights as descriptors."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqdssm.directory.profiles import PROFILES
from mqdssm.errors import ConfigError
from mqdssm.pipeline.sync import (
    Declaration,
    DeclaredMachine,
    DeclaredQueue,
    DeclaredRights,
    DeclaredSite,
    declaration,
    load_declaration,
    yaml_nodes,
)
from mqdssm.pipeline.sync.rights import RightsForm, mask_of
from mqdssm.pipeline.sync.yaml_nodes import YamlProblem, read_yaml
from mqdssm.wire.dtyp import SecurityDescriptor
from mqdssm.wire.masks import MachineAccess, QueueAccess, SiteAccess
from mqdssm.wire.sid import EVERYONE, Sid

WHOLE = """\
sites:
  Berlin: {IntraSiteReplicationInterval: 4}
machines:
  WEB01:
    QueueManagerQuota: 500000
    queues:
      orders: &like
        Label: 'yes'
        Quota: 1000
        Journaling: true
        rights:
          allow: {Everyone: [Send], S-1-5-21-1-2-3-500: [FullControl]}
          deny: {Anonymous: Send}
      copies: *like
      "0123":
  WEB02:
"""


def loaded(folder: Path, text: str) -> Declaration:
    path = folder / "declared.yaml"
    path.write_text(text)
    return load_declaration(path)


def test_a_file_is_what_it_says(tmp_path):
    declared = loaded(tmp_path, WHOLE)
    (site,), (first, second) = declared.sites, declared.machines
    assert (site.name, site.line, site.make_element().intra_site_replication_interval) == ("Berlin", 2, 4)
    assert (first.name, first.make_element().queue_manager_quota, second.queues) == ("WEB01", 500_000, None)
    assert [(one.name, one.line) for one in first.queues or ()] == [
        ("orders", 7),
        ("copies", 14),
        ("0123", 15),
    ]
    orders, copies, plain = first.queues or ()
    queue = orders.make_element("WEB01")
    assert (queue.pathname, queue.label, queue.quota, queue.journaling) == (
        "WEB01\\orders",
        "yes",
        1000,
        True,
    )
    assert (copies.rights, copies.attributes) == (orders.rights, orders.attributes)
    assert plain.make_element("WEB01").populated == {"Pathname"}
    assert declared.source == str((tmp_path / "declared.yaml").resolve())


def test_python_declares_the_same():
    queue = DeclaredQueue(
        name="orders", attributes={"Quota": 5}, rights=DeclaredRights(allow={"Everyone": ("Send",)})
    )
    declared = Declaration(machines=(DeclaredMachine(name="web01", queues=(queue,)),))
    assert [one.name for one in declared.list_objects()] == ["web01", "orders"]
    with pytest.raises(ValueError, match="has no attribute 'Qota': did you mean Quota"):
        DeclaredQueue(name="orders", attributes={"Qota": 5})
    with pytest.raises(ValueError, match="no right 'Snd': did you mean Send"):
        DeclaredQueue(name="orders", rights=DeclaredRights(allow={"Everyone": ("Snd",)}))
    with pytest.raises(ValueError, match="Orders is declared twice, as orders too"):
        DeclaredMachine(name="web01", queues=(queue, DeclaredQueue(name="Orders")))
    with pytest.raises(ValueError, match="the site a is declared twice"):
        Declaration(sites=(DeclaredSite(name="A"), DeclaredSite(name="a")))


QUEUE = "machines:\n  M:\n    queues:\n      q:\n        "
MISTAKES = [
    ("sits: {}", "line 1: the file has no key 'sits': did you mean sites?"),
    (
        "sites:\n  A:\n    ForeinSite: 1",
        "line 3: the site A has no key 'ForeinSite': did you mean ForeignSite?",
    ),
    ("machines:\n  M:\n    Quota: 1", "line 3: the machine M has no key 'Quota': there are Queue"),
    ("sites:\n  A: {}\n  A: {}", "line 3: the key 'A' is in line 2 already"),
    ("sites:\n  A: {}\n  a: {}", "line 1: the site a is declared twice, as A too in lines 2 and 3"),
    (QUEUE + "Quota: 99999999999", "line 5: Quota is 99999999999: 0 to 4294967295 are allowed"),
    (QUEUE + "Label: a\n        Quota: -1", "line 6: Quota is -1: "),
    (QUEUE + "Label: [a]", "line 5: Label takes one value"),
    (QUEUE + "Label:", "line 5: Label has no value: write '' for an empty text"),
    (QUEUE + "Journaling: on", "line 5: Journaling "),
    (QUEUE + "Pathname: x", "line 5: the queue M\\q has no key 'Pathname': there are Label, "),
    (QUEUE + "rights: {allow: {Everyone: [Snd]}}", "line 5: there is no right 'Snd': did you mean Send?"),
    (QUEUE + "rights: {alow: {}}", "line 5: rights has no key 'alow': did you mean allow?"),
    (QUEUE + "rights: {allow: {S-1-x: [Send]}}", "line 5: no SID: 'S-1-x'"),
    (
        QUEUE + "rights: {allow: {D\\u: [Send]}}",
        "line 5: the account 'D\\\\u' has no domain in its name",
    ),
    (QUEUE + "rights: D:NO_ACCESS_CONTROL", "line 5: rights in SDDL need a list D: with entries"),
    (QUEUE + "rights: X", "line 5: "),
    (QUEUE + "rights: D:(A;;0x4;;;WD)S:(AU;SA;0x1;;;WD)", "line 5: rights in SDDL have no list S:"),
    (QUEUE + "rights:\n          # none", "line 5: rights has no value: write {} for no entry"),
    (QUEUE + "rights: {allow: }", "line 5: allow has no value: write {} for no entry"),
    ("machines:\n  M:\n    queues:\n    # q: {}", "line 3: queues has no value: write {} for no queue"),
    ("machines:\n  M:\n    queues:\n      private$\\q: {}", "line 4: private$\\q is no public queue"),
    ("machines:\n  ? ''\n  : {}", "line 2: "),
    ("a: !!python/object/apply:os.system [x]", "line 1: the tag tag:yaml.org,2002:python/object/apply"),
    ("a: !own x", "line 1: the tag !own is not accepted"),
    ("a: [", "line 2: this is no YAML: "),
    ("{}\n---\n{}", "line 2: a second document begins"),
    ("a: *x", "line 1: the alias *x has no anchor before it"),
    ("a: &x [*x]", "line 1: the alias *x has no anchor before it"),
    ("[" * 17, "line 1: more than 16 levels"),
    ("- a", "line 1: the file is no mapping"),
    ("? [a]\n: b", "line 1: a key is one text"),
    ("a: \x00", "line 1: this is no YAML: "),
]


@pytest.mark.parametrize(
    ("text", "words"), MISTAKES, ids=[words.partition(":")[2][:40] for _, words in MISTAKES]
)
def test_mistakes_name_their_line(tmp_path, text, words):
    with pytest.raises(ConfigError) as refused:
        loaded(tmp_path, text)
    assert str(refused.value).startswith(f"{tmp_path / 'declared.yaml'} {words}")


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_declaration(tmp_path / "none.yaml")
    (tmp_path / "latin").write_bytes("a: 1\nb: \u00fc".encode("latin-1"))
    with pytest.raises(ConfigError, match="line 2: this is no UTF-8"):
        load_declaration(tmp_path / "latin")
    assert load_declaration(_empty(tmp_path)) == Declaration(source=str((tmp_path / "empty").resolve()))


def _empty(folder: Path) -> Path:
    (folder / "empty").write_text("# nothing\n")
    return folder / "empty"


def test_aliases_do_not_multiply_without_end(monkeypatch):
    monkeypatch.setattr(yaml_nodes, "NODES_MAX", 1000)
    lines = ["k0: &k0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"k{n}: &k{n} [{','.join([f'*k{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(YamlProblem, match="line 3: more than 1000 values"):
        read_yaml("\n".join(lines).encode())


def test_a_file_has_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(declaration, "DOCUMENT_BYTES_MAX", 10)
    with pytest.raises(ConfigError, match="longer than 10 bytes"):
        loaded(tmp_path, "a: 1234567890")


@given(st.binary(max_size=200) | st.text("{}[]&*!:-\n 'ab\"#|>?,%@", max_size=120).map(str.encode))
def test_any_octets_are_read_or_refused(data):
    with suppress(YamlProblem):
        read_yaml(data)


# -- rights

KINDS = {"mSMQQueue": QueueAccess, "mSMQConfiguration": MachineAccess, "site": SiteAccess}
SIDS = [EVERYONE, Sid("S-1-5-7"), Sid("S-1-5-21-1-2-3-500"), Sid("S-1-5-21-1-2-3-1104")]


def rights_on(kind):
    names = st.lists(st.sampled_from(list(kind.__members__)), min_size=1, max_size=4).map(tuple)
    accounts = st.dictionaries(st.sampled_from([sid.text for sid in SIDS]), names, max_size=4)
    return st.builds(DeclaredRights, allow=accounts, deny=accounts)


@given(st.data(), st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(PROFILES)))
def test_stored_rights_are_what_was_declared(data, ldap_class, profile):
    """What a server holds after rights were written grants and denies the declared rights, and no others."""
    kind = KINDS[ldap_class]
    form = RightsForm(PROFILES[profile], ldap_class)
    old = data.draw(rights_on(kind)).build_descriptor(kind, {}, None)
    present = data.draw(st.none() | st.just(form.build_stored(old, None)))
    rights = data.draw(rights_on(kind))
    declared = rights.build_descriptor(kind, {}, None)
    shown = SecurityDescriptor.from_bytes(form.build_shown(form.build_stored(declared, present)))
    assert {(ace.type, ace.sid, ace.mask) for ace in shown.dacl.aces} == {
        (ace.type, ace.sid, ace.mask) for ace in declared.dacl.aces
    }
    denies = [ace.type == 1 for ace in shown.dacl.aces]
    assert denies == sorted(denies, reverse=True)


def test_what_rights_do_not_say_stays():
    old = SecurityDescriptor.from_sddl("O:BAG:BUD:PAI(A;;0x24;;;WD)(A;ID;0x2;;;AN)S:(AU;SA;0x1;;;WD)")
    declared = DeclaredRights(allow={"Everyone": ("Send",)}).build_descriptor(QueueAccess, {}, None)
    form = RightsForm(PROFILES["openldap"], "mSMQQueue")
    new = SecurityDescriptor.from_bytes(form.build_stored(declared, bytes(old)))
    assert new == SecurityDescriptor.from_sddl("O:BAG:BUD:PAI(A;;0x4;;;WD)(A;ID;0x2;;;AN)S:(AU;SA;0x1;;;WD)")
    of_domain = RightsForm(PROFILES["activedirectory"], "mSMQQueue")
    sent = SecurityDescriptor.from_bytes(of_domain.build_stored(declared, bytes(old)))
    assert (sent.owner, sent.group, sent.sacl) == (None, None, None)  # parts that are not sent stay
    assert sent.to_sddl().startswith("D:P(OA;;CR;06bd3202-")


def test_sddl_with_an_owner_changes_the_owner():
    declared = DeclaredRights(sddl="O:DAD:P(A;;0x4;;;WD)").build_descriptor(
        QueueAccess, {}, Sid("S-1-5-21-1-2-3")
    )
    assert declared.owner == Sid("S-1-5-21-1-2-3-512")
    old = SecurityDescriptor.from_sddl("O:BAG:BUD:(A;;0x24;;;WD)")
    stored = RightsForm(PROFILES["openldap"], "mSMQQueue").build_stored(declared, bytes(old))
    assert SecurityDescriptor.from_bytes(stored).to_sddl() == "O:S-1-5-21-1-2-3-512G:BUD:P(A;;LC;;;WD)"


def test_names_of_rights_and_accounts():
    assert mask_of(("send", "PEEK_MESSAGE"), QueueAccess) == 0x6
    assert mask_of(("FullControl",), MachineAccess) == int(MachineAccess.GENERIC_ALL)
    rights = DeclaredRights(
        allow={"authenticated users": ("Send",), "clerks": ("Peek",), "S-1-1-0": ("Peek",)}
    )
    assert list(rights.list_accounts()) == ["clerks"]
    with pytest.raises(ValueError, match="the directory has no account clerks"):
        rights.build_descriptor(QueueAccess, {}, None)
    clerks = Sid("S-1-5-21-1-2-3-1104")
    both = DeclaredRights(allow={"Clerks": ("Send",), clerks.text: ("Peek",)})
    (ace,) = both.build_descriptor(QueueAccess, {"clerks": clerks}, None).dacl.aces
    assert (ace.sid, ace.mask) == (clerks, 0x6)  # one account, named twice
