"""What a person sees on a terminal of 80 columns."""

import re
import sys
from uuid import uuid4

import pytest
from support.servers.terminal import in_terminal, screen_of

import mqdssm

GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
KINDS = ("queue", "queue-manager", "site", "routing-link", "enterprise")
LONG = "orders of the northern warehouses, as they come in by night"


@pytest.fixture(scope="module")
def world(openldap_server):
    """A machine with queues, of which some have long names; its name."""
    name = f"t{uuid4().hex[:8]}"
    openldap_server.add_computer(name)
    with mqdssm.connect(openldap_server.ldapi_url) as directory:
        site = directory.create(mqdssm.Site(name=f"Site-of-{name}"))
        other = directory.create(mqdssm.Site(name=f"Other-{name}"))
        directory.create(
            mqdssm.RoutingLink(site1_identifier=site, site2_identifier=other, actual_cost=7, description=LONG)
        )
        manager = mqdssm.QueueManager(computer_name=name, site_identifier_list=[site])
        directory.create(manager)
        for number in range(20):
            label = LONG if number == 7 else f"Queue {number}"
            directory.create(mqdssm.Queue(pathname=rf"{name}\q{number}", label=label))
        yield name
        directory.delete(manager, recursive=True)


def seen(server, *args: str, columns: int = 80) -> list[str]:
    code, sent = in_terminal(args, {}, {"MQDSSM_URL": server.ldapi_url}, columns=columns)
    lines = screen_of(sent, columns)
    assert code == 0, "\n".join(lines)
    return lines


def test_progress_leaves_nothing_in_the_rows(openldap_server, world) -> None:
    lines = seen(openldap_server, "list", "queue", "--filter", rf"Pathname=={world}\q1")
    assert lines[0].split() == ["Pathname", "Label", "Transactional", "Identifier"]
    assert set(lines[1]) == {"─"}
    assert lines[2].split()[:3] == [rf"{world}\q1", "Queue", "1"]
    assert lines[3:5] == ["no room for Quota: name what to show with --attributes", "1 queue"]
    assert not any("reading" in line for line in lines)


@pytest.mark.parametrize(
    "printed",
    ["line('x')", "raw('x\\n')", "show('x')", "rows(['x'], [['y']])", "pairs([('x', '')])", "document(8)"],
)
@pytest.mark.parametrize("display", ["progress", "bar"])
@pytest.mark.slow  # starts programs
def test_an_answer_ends_the_display_of_progress(printed: str, display: str) -> None:
    code = (
        "from mqdssm.cli.output import Output\n"
        f"output = Output()\nwith output.{display}('working') as more:\n"
        f"    output.{printed}\n"
        f"    more({'1' if display == 'progress' else '1, 2'})\n"
    )
    result, sent = in_terminal([], {}, {}, program=[sys.executable, "-c", code])
    assert result == 0, sent
    assert "working" in sent
    assert screen_of(sent)[0] in {"x", "8"}
    assert "working" not in "".join(screen_of(sent))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 100, 132, 200])
def test_guids_stay_in_one_line(openldap_server, world, columns: int) -> None:
    """One program lists all kinds one after the other: its start takes longer than what it does."""
    code = (
        "import sys\nfrom mqdssm.cli.main import app\n"
        f"for kind in {KINDS}:\n"
        "    sys.argv = ['mqdssm', 'list', kind]\n"
        "    try:\n        app()\n"
        "    except SystemExit as ended:\n        assert not ended.code, ended.code\n"
        "    print('END OF THE LIST', flush=True)\n"
    )
    environment = {"MQDSSM_URL": openldap_server.ldapi_url}
    result, sent = in_terminal([], {}, environment, columns=columns, program=[sys.executable, "-c", code])
    assert result == 0, sent
    lists = "\n".join(screen_of(sent, columns)).split("END OF THE LIST")
    with mqdssm.connect(openldap_server.ldapi_url) as directory:
        for kind, text in zip(KINDS, lists[:-1], strict=True):
            assert max(map(len, text.splitlines())) <= columns
            element = getattr(mqdssm, "".join(part.capitalize() for part in kind.split("-")))
            stored = {str(found.identifier) for found in directory.search(element)}
            assert stored
            assert stored <= {match[0] for match in GUID.finditer(text)}


def test_rows_become_records_where_columns_do_not_fit(openldap_server, world) -> None:
    where = ("--filter", rf"Pathname=={world}\q7")
    wanted = ("--attributes", "Identifier,Type,QualifiedPathname,Label,Quota,JournalQuota")
    lines = seen(openldap_server, "list", "queue", *where, *wanted)
    names = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert names == ["Identifier", "Type", "QualifiedPathname", "Label", "Quota", "JournalQuota", "1"]
    assert f"Label              {LONG}" in lines


def test_names_asked_for_are_all_shown(openldap_server, world) -> None:
    where = ("--filter", rf"Pathname=={world}\q7")
    lines = seen(openldap_server, "list", "queue", *where, "--attributes", "Pathname,Label,Quota,Identifier")
    assert lines[0].split() == ["Pathname", "Label", "Quota", "Identifier"]
    shown = " ".join(line[: -36 if GUID.search(line) else None] for line in lines[2:-1])
    assert all(word in shown for word in LONG.split())
