"""Samba's own tools, as the tests use them."""

import subprocess
from uuid import UUID, uuid4

import pytest
from support.servers.samba_tools import RELAX, SHOW_DELETED, SambaTools, missing

from mqdssm.testing import SambaDomainController


@pytest.fixture
def tools(samba_server: SambaDomainController) -> SambaTools:
    assert not missing()
    return SambaTools(samba_server)


def test_add_with_a_guid_search_change_delete(tools: SambaTools, samba_server: SambaDomainController) -> None:
    computer = samba_server.add_computer("TOOLS1")
    guid = uuid4()
    msmq = tools.add(
        f"CN=msmq,{computer}",
        {"objectClass": "mSMQConfiguration", "objectGUID": guid.bytes_le},
        controls=[RELAX],
    )
    assert tools.entry(msmq, "objectGUID")["objectGUID"] == [str(guid).encode()]  # ldbsearch shows it as text
    tools.modify(msmq, "replace: mSMQOSType\nmSMQOSType: 1280")
    assert tools.entry(msmq, "mSMQOSType")["mSMQOSType"] == [b"1280"]
    assert tools.sddl(msmq).startswith("O:DA")
    tools.delete(msmq)
    assert tools.search("(objectClass=mSMQConfiguration)", base=computer) == {}
    deleted = tools.search(f"(objectGUID={guid})", "objectGUID", controls=[SHOW_DELETED])
    assert [UUID(entry["objectGUID"][0].decode()) for entry in deleted.values()] == [guid]


def test_failures_are_failures(tools: SambaTools) -> None:
    with pytest.raises(AssertionError, match="ldbadd"):
        tools.add("CN=x,CN=nowhere,DC=contoso,DC=test", {"objectClass": "container"})
    with pytest.raises(AssertionError):
        tools.entry("CN=nobody,DC=contoso,DC=test")


@pytest.mark.soak
def test_the_check_of_a_database_sees_what_is_wrong() -> None:
    with SambaDomainController() as server:
        tools = SambaTools(server)
        tools.check_database()
        computer = server.add_computer("BROKEN")
        # below all that Samba watches over: the file of the naming context
        file = server.folder / "private" / "sam.ldb.d" / f"{server.base_dn.upper()}.ldb"
        change = f"dn: {computer}\nchangetype: modify\nreplace: instanceType\ninstanceType: 13\n"
        subprocess.run(["ldbmodify", "-H", file], input=change, text=True, check=True, capture_output=True)
        with pytest.raises(AssertionError, match="instanceType"):
            tools.check_database()
