"""Names in sample enterprises: places, programs, people."""

from typing import Final, NamedTuple

from mqdssm.model.enums import OperatingSystemType


class SampleSite(NamedTuple):
    """A site: its name, and the first three letters of its machines' names."""

    name: str
    code: str


class System(NamedTuple):
    """An operating system with MSMQ.

    Attributes:
        type: type in the queue manager object.
        name: name of the product in the computer object.
        version: version of the product.
        msmq: version of MSMQ; empty for another messaging system.
        server: True if it can have the roles of a server.
    """

    type: OperatingSystemType
    name: str
    version: str
    msmq: str
    server: bool

    @property
    def text(self) -> str:
        """QueueManagerVersion: operating system and version of MSMQ as one text."""
        if not self.msmq:
            return self.name
        return f"{self.name} ({self.version}), MSMQ {self.msmq}"


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PLACES: Final = tuple(
    SampleSite(*pair.split("/"))
    for pair in _split_words(
        "Berlin/BER Paris/PAR Oslo/OSL Madrid/MAD Vienna/VIE Zurich/ZRH Lisbon/LIS Dublin/DUB Prague/PRG "
        "Warsaw/WAW Milan/MIL Helsinki/HEL Stockholm/STO Copenhagen/CPH Brussels/BRU Amsterdam/AMS "
        "London/LON Manchester/MAN Athens/ATH Budapest/BUD Bucharest/BUH Sofia/SOF Zagreb/ZAG Riga/RIX "
        "Vilnius/VNO Tallinn/TLL Istanbul/IST Cairo/CAI Lagos/LOS Nairobi/NBO Johannesburg/JNB Dubai/DXB "
        "Mumbai/BOM Delhi/DEL Bangalore/BLR Singapore/SIN Bangkok/BKK Jakarta/JKT Manila/MNL Hanoi/HAN "
        "Tokyo/TYO Osaka/OSA Seoul/SEL Sydney/SYD Melbourne/MEL Perth/PER Auckland/AKL Toronto/YTO "
        "Montreal/YMQ Vancouver/YVR Chicago/CHI Boston/BOS Denver/DEN Dallas/DAL Seattle/SEA Atlanta/ATL "
        "Mexico-City/MEX Bogota/BOG Lima/LIM Santiago/SCL"
    )
)

_OS: Final = OperatingSystemType
NT4: Final = "4.0 (1381)"
SYSTEMS: Final = (
    System(_OS.WIN_SERVER, "Windows NT Server", NT4, "1.0", server=True),
    System(_OS.WIN_ENT, "Windows NT Server Enterprise Edition", NT4, "1.0", server=True),
    System(_OS.WIN_SERVER, "Windows 2000 Server", "5.0 (2195)", "2.0", server=True),
    System(_OS.WIN_ENT, "Windows Server 2003 Enterprise Edition", "5.2 (3790)", "3.0", server=True),
    System(_OS.WIN_SERVER, "Windows Server 2008 R2 Standard", "6.1 (7601)", "5.0", server=True),
    System(_OS.WIN_CLIENT, "Windows NT Workstation", NT4, "1.0", server=False),
    System(_OS.WIN_CLIENT, "Windows 2000 Professional", "5.0 (2195)", "2.0", server=False),
    System(_OS.WIN_CLIENT, "Windows XP Professional", "5.1 (2600)", "3.0", server=False),
    System(_OS.WIN95, "Windows 98", "4.10 (2222)", "1.0", server=False),
)
FOREIGN_SYSTEM: Final = System(_OS.FOREIGN, "MQSeries", "5.1", "", server=False)
SERVER_SYSTEMS: Final = tuple(system for system in SYSTEMS if system.server)
CLIENT_SYSTEMS: Final = tuple(system for system in SYSTEMS if not system.server)

AREAS: Final = _split_words(
    "orders invoices shipping returns audit stock prices customers payments payroll tickets reports alerts "
    "claims loans trades bookings deliveries contracts catalog"
)
STEPS: Final = _split_words(
    "inbound outbound errors retry deadletter archive commands events replies notify import export"
)
VARIANTS: Final = ("", ".v2", ".test", ".batch", ".prio", "$bak", "#2", "=dr")
LONG_PREFIX: Final = "contoso.integration.messaging.endpoints."
LONG_SUFFIXES: Final = (
    ".subscriptions.to.the.central.clearing.house",
    ".queue-for-messages/that-could-not-be-delivered",
    ".waiting.for.the.nightly.batch.run.of.the.mainframe",
)
LABEL_FORMS: Final = (
    "{area} {step}",
    "{area}: {step} ({site})",
    "Queue for {area}, {step}",
    "{site} → {area} → {step}",  # labels are Unicode
    "Aufträge: {area}, {step}",
    "AuftrÃ¤ge: {area}",  # UTF-8 once misread as Windows-1252
    "Zahlungen in €: {area}",  # 0x80 in Windows-1252, not in ISO 8859-1
    "Заказы: {area} ({site})",  # Windows-1251
    "",
)
FIRST_NAMES: Final = _split_words(
    "ann ben cleo dora emil fay gus hana ivan jo kai lea max nora otto pia quin rosa sven tara ugo vera will "
    "xena yan zoe"
)
LAST_NAMES: Final = _split_words(
    "adams baker clark diaz evans fischer garcia hansen ito jensen khan larsen meyer novak olsen petrov "
    "quist rossi smith tanaka unger virtanen weber xu young zimmer"
)
