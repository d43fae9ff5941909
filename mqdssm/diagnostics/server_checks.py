"""Checks of the server: limits, controls, indexes, clock, and the other servers."""

import contextlib
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from mqdssm.diagnostics.findings import CheckedDirectory, CheckFinding, make_ok, make_problem, make_warning
from mqdssm.directory.filters import Present
from mqdssm.directory.requests import PAGED_RESULTS_OID
from mqdssm.directory.session import Session
from mqdssm.errors import DirectoryError, ObjectNotFound

MORE_RIGHTS: Final = "log in (--user), or let the server's administrator grant the right to read"
COUNTING_LIMIT_S: Final = 3.0
"""Seconds for reading a long search, to see whether the server limits it."""
LOOKUPS: Final = 5
SLOW_LOOKUP_S: Final = 0.05
CLOCK_DIFFERENCE_MAX_S: Final = 300
"""Five minutes: what Kerberos allows, too."""
EXTENSIONS: Final = {"1.3.6.1.4.1.1466.20037": "StartTLS", "1.3.6.1.4.1.4203.1.11.3": "who am I"}


def check_limits(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Check that the server does not cut a long search."""
    session, name = checked.session, "limits"
    started = time.monotonic()
    count, whole = 0, True
    rows = session.rows(session.naming.forest, Present("objectClass"), ["objectGUID"])
    try:
        for _ in rows:
            count += 1
            if time.monotonic() - started > COUNTING_LIMIT_S:
                whole = False
                break
    except ObjectNotFound:
        yield make_problem(
            name, f"this user may not see {session.naming.forest}: every search ends empty", MORE_RIGHTS
        )
        return
    except DirectoryError as error:
        if error.ldap_code in {3, 4, 11}:
            words = f"the server cut a search after {count} objects ({error.server_text!r})"
            yield make_problem(name, words, error.hint)
            return
        raise
    finally:
        getattr(rows, "close", lambda: None)()
    pages = f"pages of {checked.options.page_size}"
    text = f"read {'all' if whole else 'the first'} {count} objects in {pages}: no size limit met"
    usual = session.profile.facts.size_limit
    if whole and count < usual:
        text += f" (a limit of {usual}, which is usual, would not show yet)"
    yield make_ok(name, text)


def check_controls(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Check that the server has the required and the useful controls."""
    name, root_dse, facts = "controls", checked.session.root_dse, checked.session.profile.facts
    oids = {value.decode() for value in root_dse.all("supportedControl")}
    if PAGED_RESULTS_OID not in oids:
        yield make_problem(name, "no paged results (RFC 2696): long searches will fail", "use another server")
        return
    if checked.session.brings_references:
        yield make_ok(name, f"paged results, {facts.references}")
    else:
        words = f"paged results, but no {facts.references}: references cost a round trip more a page"
        yield make_warning(name, words, facts.references_hint)
    extensions = {value.decode() for value in root_dse.all("supportedExtension")}
    has = [word for oid, word in EXTENSIONS.items() if oid in extensions] or ["none named"]
    ways = [word for oid, word in facts.watched_by.items() if oid in oids]
    watch = f"can be watched ({', '.join(ways)})" if ways else f"cannot be watched ({facts.watch_hint})"
    yield make_ok(name, f"extended operations: {', '.join(has)}; changes {watch}")


def check_indexes(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Check that look-ups by GUID are fast, since every event begins with one."""
    session, name = checked.session, "indexes"
    facts = session.profile.facts
    seen = None if facts.index_place is None else _read_configured_indexes(session, *facts.index_place)
    if seen is not None and "objectguid" not in seen:
        yield make_problem(name, "objectGUID has no index", facts.index_hint)
        return
    times = [_lookup_s(session) for _ in range(LOOKUPS)]
    took = statistics.median(times)
    text = f"a look-up by GUID takes {took * 1000:.1f} ms"
    if seen is None and facts.index_place is not None:
        text += "; the configuration is not shown to this user"
    if took > SLOW_LOOKUP_S:
        yield make_warning(name, f"{text}, which is slow", facts.index_hint)
    else:
        yield make_ok(name, text)


def _lookup_s(session: Session) -> float:
    started = time.monotonic()
    with contextlib.suppress(ObjectNotFound):
        session.get(uuid4(), ["objectClass"])
    return time.monotonic() - started


def _read_configured_indexes(session: Session, place: str, attribute: str) -> set[str] | None:
    """Return the indexed attributes in lower case.

    Returns None if the configuration is not readable.
    """
    try:
        entries = list(session.find(place, Present(attribute), [attribute]))
    except DirectoryError:
        return None
    values = [value.decode(errors="replace") for entry in entries for value in entry.all(attribute)]
    if not values:
        return None
    return {name.strip().lower() for value in values for name in value.partition(" ")[0].split(",")}


def check_clock(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Check that the server's clock agrees with the local one.

    Nothing is checked if the server does not show its time.
    """
    session, name = checked.session, "clock"
    server_time = _read_server_time(session)
    now = datetime.now(UTC)
    if server_time is not None:
        moment, source = server_time
        difference = (moment - now).total_seconds()
        side = "ahead" if difference > 0 else "behind"
        text = f"the server's clock is {abs(difference):.0f} s {side} ({source})"
        if abs(difference) > CLOCK_DIFFERENCE_MAX_S:
            yield make_warning(
                name, text, "set both clocks by NTP: CreateTime and ModifyTime are the server's"
            )
        else:
            yield make_ok(name, text)
        return
    last = _find_last_change(session)
    if last is not None and (last - now).total_seconds() > CLOCK_DIFFERENCE_MAX_S:
        words = f"the last change is of {last:%Y-%m-%dT%H:%M:%SZ}, which is in the future"
        yield make_warning(name, words, "set both clocks by NTP")
    else:
        yield make_ok(name, "the server does not tell its time; nothing in it is of the future")


def _read_server_time(session: Session) -> tuple[datetime, str] | None:
    for dn, attribute in (("", "currentTime"), ("cn=Current,cn=Time,cn=Monitor", "monitorTimestamp")):
        try:
            value = session.get(dn, [attribute]).first(attribute)
        except DirectoryError:
            continue
        moment = _parse_time(value)
        if moment is not None:
            return moment, f"{attribute} of {dn or 'the root DSE'}"
    return None


def _find_last_change(session: Session) -> datetime | None:
    values = _change_numbers(session)
    return max((moment for moment in map(_parse_time, values) if moment is not None), default=None)


def _change_numbers(session: Session) -> list[bytes]:
    attribute = session.profile.facts.change_number
    if attribute is None:
        return []
    try:
        return session.get(session.naming.forest, [attribute]).all(attribute)
    except DirectoryError:
        return []


def _parse_time(value: bytes | None) -> datetime | None:
    """Parse the time at the start of a GeneralizedTime or a change number.

    Returns None if it has no time.
    """
    if value is None:
        return None
    try:
        return datetime.strptime(value[:14].decode("ascii"), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def check_agreement(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Check that all servers of the list hold the same directory in the same state."""
    name = "servers"
    if len(checked.endpoints) == 1:
        yield make_ok(name, "one server: nothing to fall back to")
        return
    seen: dict[str, tuple[object, ...]] = {}
    for endpoint in checked.endpoints:
        with Session.open(replace(checked.options, endpoints=(endpoint,))) as session:
            identity = (str(session.naming.forest), session.profile.name)
            seen[endpoint.url] = (*identity, tuple(sorted(_change_numbers(session))))
    directories = {state[:2] for state in seen.values()}
    if len(directories) > 1:
        words = "; ".join(f"{url}: {state[1]} {state[0]}" for url, state in seen.items())
        advice = "list the servers of one directory only"
        yield make_problem(name, f"they hold different directories: {words}", advice)
    elif len({state[2] for state in seen.values()}) > 1:
        yield make_warning(
            name, f"{len(seen)} servers, not (yet) in the same state", "is replication running?"
        )
    elif all(state[2] for state in seen.values()):
        yield make_ok(name, f"{len(seen)} servers of the same directory, in the same state")
    else:
        text = f"{len(seen)} servers of the same directory"
        yield make_ok(name, f"{text}; they do not tell this user whether they are in the same state")


def check_catalog(checked: CheckedDirectory) -> Iterator[CheckFinding]:
    """Check that a global catalog answers, for finding objects of other domains."""
    name, options = "global catalog", checked.options
    if not checked.session.profile.has_catalog:
        return
    if options.part_only:
        words = (
            "the server is a global catalog itself: it holds a part of the attributes, and takes no changes"
        )
        yield make_warning(
            name, words, "take port 3268 or 3269 out of the URL; --forest finds the catalog by itself"
        )
        return
    if not options.catalogs:
        yield make_ok(name, "a local socket leads to none: --catalog would name one")
        return
    urls = ", ".join(endpoint.url for endpoint in options.catalogs)
    with Session(replace(options, forest=True)) as session:
        try:
            catalog_session = session.catalog or session
            ready = catalog_session.get("", ["isGlobalCatalogReady"]).first("isGlobalCatalogReady")
        except DirectoryError as error:
            words = f"none answers at {urls}: {error.message}"
            if options.forest:
                yield make_problem(name, words, error.hint or "name one that does: --catalog")
            else:
                yield make_ok(name, f"{words} (needed for --forest only)")
            return
        if ready == b"FALSE":
            words = f"{catalog_session.server_url} answers, but does not hold all domains yet"
            yield make_warning(name, words, "wait until its replication is done")
        else:
            yield make_ok(
                name, f"{catalog_session.server_url} answers: --forest would find objects of all domains"
            )
