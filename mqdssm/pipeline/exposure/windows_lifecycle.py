"""Releases of Windows and the ends of their support.

The days come from Microsoft's public lifecycle pages. The end is that of extended support, or of servicing.
Paid Extended Security Updates do not count.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

TABLE_DATE: Final = date(2026, 11, 28)
"""Date of this table: support that was changed later is not in it."""
SOURCE: Final = "https://learn.microsoft.com/lifecycle/products/"


@dataclass(frozen=True, slots=True)
class WindowsRelease:
    """A release of Windows.

    Attributes:
        name: product, as `operatingSystem` of Active Directory begins, perhaps with a version.
        is_server: True for a server.
        version: major and minor number, as ``10.0``.
        build: build number; 0 for products that their version names.
        ends: last day of support.
        ends_of_companies: last day for the editions Enterprise and Education; None: `ends`.
        channel: words in the name of the edition; empty: all that no other row names.
    """

    name: str
    is_server: bool
    version: str
    build: int
    ends: date
    ends_of_companies: date | None = None
    channel: str = ""


def _make_server(name: str, version: str, build: int, ends: str) -> WindowsRelease:
    return WindowsRelease(f"Windows {name}".strip(), True, version, build, date.fromisoformat(ends))


def _make_client(
    name: str, version: str, build: int, ends: str, companies: str = "", *, channel: str = ""
) -> WindowsRelease:
    later = date.fromisoformat(companies) if companies else None
    return WindowsRelease(f"Windows {name}", False, version, build, date.fromisoformat(ends), later, channel)


WINDOWS_RELEASES: Final[Sequence[WindowsRelease]] = (
    _make_server("NT", "4.0", 0, "2004-12-31"),
    _make_server("2000 Server", "5.0", 2195, "2010-07-13"),
    _make_server("Server 2003", "5.2", 3790, "2015-07-14"),
    _make_server("Server 2008", "6.0", 6003, "2020-01-14"),
    _make_server("Server 2008", "6.0", 6002, "2020-01-14"),
    _make_server("Server 2008", "6.0", 6001, "2011-07-12"),
    _make_server("Server 2008 R2", "6.1", 7601, "2020-01-14"),
    _make_server("Server 2008 R2", "6.1", 7600, "2013-04-09"),
    _make_server("Server 2012", "6.2", 9200, "2023-10-10"),
    _make_server("Server 2012 R2", "6.3", 9600, "2023-10-10"),
    _make_server("Server 2016", "10.0", 14393, "2027-01-12"),
    _make_server("Server 2019", "10.0", 17763, "2029-01-09"),
    _make_server("Server 2022", "10.0", 20348, "2031-10-14"),
    _make_server("Server 2025", "10.0", 26100, "2034-11-14"),
    _make_client("2000 Professional", "5.0", 2195, "2010-07-13"),
    _make_client("XP", "5.1", 2600, "2014-04-08"),
    _make_client("Vista", "6.0", 6002, "2017-04-11"),
    _make_client("7", "6.1", 7601, "2020-01-14"),
    _make_client("7", "6.1", 7600, "2013-04-09"),
    _make_client("8", "6.2", 9200, "2016-01-12"),
    _make_client("8.1", "6.3", 9600, "2023-01-10"),
    _make_client("10", "10.0", 10240, "2017-05-09"),
    _make_client("10", "10.0", 10240, "2025-10-14", channel="LTSB"),
    _make_client("10", "10.0", 10586, "2017-10-10"),
    _make_client("10", "10.0", 14393, "2018-04-10", "2019-04-09"),
    _make_client("10", "10.0", 14393, "2026-10-13", channel="LTSB"),
    _make_client("10", "10.0", 15063, "2018-10-09", "2019-10-08"),
    _make_client("10", "10.0", 16299, "2019-04-09", "2020-10-13"),
    _make_client("10", "10.0", 17134, "2019-11-12", "2021-05-11"),
    _make_client("10", "10.0", 17763, "2020-11-10", "2021-05-11"),
    _make_client("10", "10.0", 17763, "2029-01-09", channel="LTSC"),
    _make_client("10", "10.0", 18362, "2020-12-08"),
    _make_client("10", "10.0", 18363, "2021-05-11", "2022-05-10"),
    _make_client("10", "10.0", 19041, "2021-12-14"),
    _make_client("10", "10.0", 19042, "2022-05-10", "2023-05-09"),
    _make_client("10", "10.0", 19043, "2022-12-13"),
    _make_client("10", "10.0", 19044, "2023-06-13", "2024-06-11"),
    _make_client("10", "10.0", 19044, "2027-01-12", channel="LTSC"),
    _make_client("10", "10.0", 19045, "2025-10-14"),
    _make_client("11", "10.0", 22000, "2023-10-10", "2024-10-08"),
    _make_client("11", "10.0", 22621, "2024-10-08", "2025-10-14"),
    _make_client("11", "10.0", 22631, "2025-11-11", "2026-11-10"),
    _make_client("11", "10.0", 26100, "2026-10-13", "2027-10-12"),
    _make_client("11", "10.0", 26100, "2029-10-09", channel="LTSC"),
    _make_client("11", "10.0", 26200, "2027-10-12", "2028-10-10"),
    _make_client("11", "10.0", 28000, "2028-03-14", "2029-03-13"),
)
"""All releases that can have MSMQ."""

_VERSION: Final = re.compile(r"(\d{1,3}\.\d{1,3})(?:(?:\.| \()(\d{1,6})\)?)?")
_COMPANIES: Final = ("enterprise", "education")


def find_release(system: str, version: str, *, is_server: bool | None = None) -> WindowsRelease | None:
    """Find the release of a computer.

    Args:
        system: `operatingSystem` of Active Directory, as ``Windows Server 2022 Standard``; or empty.
        version: `operatingSystemVersion`, as ``10.0 (20348)``; or empty.
        is_server: kind of Windows, if it is known otherwise; it is used without `system`.

    Returns:
        The release; None if it is not known, or several are possible.
    """
    match = _VERSION.fullmatch(version)
    name = _strip_trademarks(system)
    if match is None and (version or not name):
        return None
    if name:
        is_server = "server" in name or name.startswith("windows nt")
    releases = [
        release
        for release in WINDOWS_RELEASES
        if (is_server is None or release.is_server is is_server)
        and (not name or _is_same_product(name, release.name.casefold()))
        and (match is None or _has_version(release, match[1], match[2]))
    ]
    if name and releases:  # "Windows Server 2012" begins "Windows Server 2012 R2", too
        longest = max(len(release.name) for release in releases)
        releases = [release for release in releases if len(release.name) == longest]
    channels = [release for release in releases if release.channel and release.channel.casefold() in name]
    plain = channels or [release for release in releases if not release.channel]
    ends = {find_last_day(release, system) for release in plain}
    return plain[0] if len(ends) == 1 and len({release.name for release in plain}) == 1 else None


def _has_version(release: WindowsRelease, version: str, build: str | None) -> bool:
    return release.version == version and (not release.build or build in {None, str(release.build)})


def find_last_day(release: WindowsRelease, system: str) -> date:
    """Return the last day of support of an edition.

    Args:
        release: the release.
        system: `operatingSystem`, which names the edition; without an edition the later day counts.
    """
    name = system.casefold()
    edition = any(word in name for word in _COMPANIES) or not any(word in name for word in ("pro", "home"))
    return release.ends_of_companies if release.ends_of_companies is not None and edition else release.ends


def _strip_trademarks(system: str) -> str:
    """Return the name without trademarks, as ``Windows Server® 2008``."""
    name = re.sub(r"[®™]|\((?:r|tm)\)", "", system.casefold())
    return re.sub(r"\s+", " ", name).strip().removeprefix("microsoft ")


def _is_same_product(name: str, product: str) -> bool:
    return name == product or name.startswith(f"{product} ")
