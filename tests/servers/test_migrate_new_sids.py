"""SIDs of computers that a migration creates: no account of the target has them."""

from mqdssm.pipeline.migrate import target
from mqdssm.pipeline.migrate.target import domain_sid, new_sids


def test_no_new_sid_is_that_of_an_account(openldap_server, openldap_directory, monkeypatch) -> None:
    """What follows a taken number may be taken, too."""
    openldap_server.add_computer("web01")
    session = openldap_directory.session
    (entry,) = session.find(session.naming.root, target.Equal("cn", b"web01"), ["objectSid"])
    taken = int(str(target.Sid.from_bytes(entry.first("objectSid"))).rpartition("-")[2])
    monkeypatch.setattr(target, "_rid", lambda _name: taken - 1)
    found = new_sids(session, ["a", "b"])
    assert found == {"a": f"{domain_sid(session)}-{taken - 1}", "b": f"{domain_sid(session)}-{taken + 1}"}
