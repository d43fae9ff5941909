"""Checks of the directory: kind of server, schema, base tree, rights."""

import time
from collections.abc import Iterator
from typing import Final

from mqdssm.diagnostics.connection_checks import open_bound
from mqdssm.diagnostics.event_rights import check_events
from mqdssm.diagnostics.findings import (
    OPERATION_LIMIT_S,
    CheckedDirectory,
    CheckFinding,
    make_ok,
    make_problem,
    make_warning,
)
from mqdssm.diagnostics.sample_objects import Samples
from mqdssm.directory.requests import ChangeType, Modification, encode_modify
from mqdssm.directory.responses import MODIFY_RESPONSE, LdapResult
from mqdssm.directory.schema_check import differences_of
from mqdssm.directory.session import Session
from mqdssm.errors import ObjectNotFound
from mqdssm.tables import places

SHOWN_MAX: Final = 5
"""Maximum differences or names in one line."""
NO_SUCH_ATTRIBUTE: Final = 16
INSUFFICIENT_ACCESS: Final = 50


def check_profile(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Report the kind of server, and its naming contexts."""
    session = checked.session
    versions = [value.decode(errors="replace") for value in session.root_dse.all("vendorVersion")]
    title = " ".join((session.profile.title, *versions))
    how = "by option" if checked.options.profile != "auto" else "found out"
    yield make_ok("profile", f"{title} ({session.profile.name}, {how})")
    naming = session.naming
    published = session.root_dse.first("rootDomainNamingContext") is not None
    text = f"root {naming.root}, configuration {naming.configuration}"
    if published:
        yield make_ok("naming contexts", text)
    else:
        words = f"{text}, guessed: the root DSE does not name them"
        yield make_warning("naming contexts", words, session.profile.facts.naming_hint)


def check_schema(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Check that the server's schema has what the mapping needs."""
    differences = differences_of(checked.session)
    serious = [difference for difference in differences if difference.serious]
    if not differences:
        yield make_ok("schema", "all classes and attributes are there, as Microsoft defines them")
        return
    examples = "; ".join(str(difference) for difference in differences[:SHOWN_MAX])
    more = f"; {len(differences) - SHOWN_MAX} more" if len(differences) > SHOWN_MAX else ""
    if not serious:
        yield make_warning(
            "schema", f"{examples}{more}", "nothing that is needed; 'mqdssm schema check' lists all"
        )
    elif any("no equality rule" in difference.problem for difference in serious):
        yield make_problem("schema", f"{examples}{more}", "take msuser.schema out and load ours instead")
    else:
        yield make_problem("schema", f"{examples}{more}", checked.session.profile.facts.schema_hint)


def check_tree(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Check that the objects exist that every event needs."""
    session, name = checked.session, "base tree"
    root, forest = session.naming.root, session.naming.forest
    needed = (
        places.computers_dn(root),
        places.users_dn(root),
        places.sites_dn(forest),
        places.services_dn(forest),
    )
    missing = [str(dn) for dn in needed if not _exists(session, str(dn))]
    if missing:
        words = f"missing, or not shown to this user: {'; '.join(missing)}"
        yield make_warning(name, words, _format_tree_hint(session))
    else:
        yield make_ok(name, "Computers, Users, Sites and Services are there")
    yield from _check_enterprise(session)


def _check_enterprise(session: Session) -> Iterator[CheckFinding]:
    naming, facts, name = session.naming, session.profile.facts, "enterprise"
    dn = places.enterprise_dn(naming.forest, naming.configuration)
    try:
        entry = session.get(dn, ["objectGUID", "nTSecurityDescriptor"])
    except ObjectNotFound:
        words = f"{dn} is missing: this is no MSMQ directory, or this user may not see it"
        yield make_problem(name, words, f"is it the right server? {_format_tree_hint(session)}")
        return
    if entry.first("objectGUID") is None:
        words = f"{dn} has no objectGUID that this user may read"
        yield make_problem(name, words, "give the user the right to read")
    elif entry.first("nTSecurityDescriptor") is None:
        words = f"{dn} has no security descriptor that this user may read"
        yield make_warning(name, words, facts.descriptor_hint)
    else:
        yield make_ok(name, f"{dn} is there")


def _format_tree_hint(session: Session) -> str:
    return session.profile.facts.tree_hint.replace("{root}", str(session.naming.forest))


def _exists(session: Session, dn: str) -> bool:
    try:
        session.get(dn, ["objectClass"])
    except ObjectNotFound:
        return False
    return True


def check_rights(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Report the bound identity and its rights, without a change."""
    session, name = checked.session, "rights"
    who = session.bound_name()
    sid = session.bound_sid()
    if who is None and sid is not None:  # Samba does not say who one is
        who = checked.options.user or "the user of this process"
    yield make_ok(name, f"logged in as {who or 'nobody (anonymous)'}{f', SID {sid}' if sid else ''}")
    if session.profile.computes_rights:
        yield from check_events(checked)
        return
    if checked.options.read_only:
        yield make_ok(name, "read only: nothing is ever written, so the right to was not tried")
        return
    samples = Samples(session, checked.at)
    for subject, ldap_class, attribute in (
        ("the enterprise", "mSMQEnterpriseSettings", "mSMQLongLived"),
        ("queue managers", "mSMQConfiguration", "mSMQQuota"),
        ("queues", "mSMQQueue", "mSMQQueueQuota"),
    ):
        target = samples.of_class(ldap_class)
        if target is not None and _exists(session, str(target)):
            values = session.get(target, [attribute]).all(attribute)
            yield _may_write(checked, subject, attribute, str(target), values)
        elif ldap_class != "mSMQEnterpriseSettings":
            yield make_ok(name, f"no {subject} to be seen yet: whether they may be changed was not tried")


def _may_write(
    checked: CheckedDirectory, subject: str, attribute: str, dn: str, values: list[bytes]
) -> CheckFinding:
    """Try to delete a value that does not exist: the result code shows the rights."""
    absent = next(value for value in (b"-2147483648", b"-2147483647") if value not in values)
    result = _delete_value(checked, dn, attribute, absent)
    name = "rights"
    if result.code == NO_SUCH_ATTRIBUTE:
        return make_ok(name, f"may change {subject} (tried on {dn}, nothing changed)")
    if result.code == INSUFFICIENT_ACCESS:
        advice = "reading is all that works; let the server's administrator grant more if that is not enough"
        return make_warning(name, f"may not change {subject} (tried on {dn})", advice)
    text = f"LDAP result {result.code} {result.text!r}"
    words = f"whether {subject} may be changed cannot be told: {text}"
    return make_warning(name, words, "try it on an object that does not matter")


def _delete_value(checked: CheckedDirectory, dn: str, attribute: str, value: bytes) -> LdapResult:
    with open_bound(checked.options, checked.endpoints[0]) as channel:
        number = channel.choose_id()
        request = encode_modify(number, dn, [Modification(ChangeType.DELETE, attribute, [value])])
        return channel.request(number, request, MODIFY_RESPONSE, time.monotonic() + OPERATION_LIMIT_S)
