"""SIDs of computers that a migration creates: no account of the target has them."""

from mqdssm.directory.filters import Present
from mqdssm.pipeline.migrate import target
from mqdssm.pipeline.migrate.target import make_new_sids, read_domain_sid


def test_no_new_sid_is_that_of_an_account(openldap_server, openldap_directory, monkeypatch) -> None:
    """What follows a taken number may be taken, too."""
    openldap_server.add_computer("web01")
    session = openldap_directory.session
    entries = session.find(session.naming.root, Present("objectSid"), ["objectSid"])
    sids = {str(target.Sid.from_bytes(entry.first("objectSid"))) for entry in entries}
    domain = read_domain_sid(session)
    numbers = {int(sid.rpartition("-")[2]) for sid in sids if sid.rpartition("-")[0] == str(domain)}
    taken = next(number for number in sorted(numbers) if number - 1 not in numbers)
    free = next(number for number in range(taken, taken + len(numbers) + 1) if number not in numbers)
    monkeypatch.setattr(target, "_compute_rid", lambda _name: taken - 1)
    found = make_new_sids(session, ["a", "b"])
    assert found == {"a": f"{domain}-{taken - 1}", "b": f"{domain}-{free}"}
