"""Releases of Windows by what Active Directory says about a computer."""

from datetime import date

import pytest

from mqdssm.pipeline.exposure.windows_lifecycle import (
    TABLE_DATE,
    WINDOWS_RELEASES,
    find_last_day,
    find_release,
)


@pytest.mark.parametrize(
    ("system", "version", "is_server", "name", "ends"),
    [
        ("Windows Server 2022 Standard", "10.0 (20348)", None, "Windows Server 2022", "2031-10-14"),
        ("Windows Server 2025 Datacenter", "10.0 (26100)", None, "Windows Server 2025", "2034-11-14"),
        ("Windows Server 2012 R2 Standard", "6.3 (9600)", None, "Windows Server 2012 R2", "2023-10-10"),
        ("Windows Server 2012 Standard", "6.2 (9200)", None, "Windows Server 2012", "2023-10-10"),
        ("Windows Server 2012 R2 Standard", "", None, "Windows Server 2012 R2", "2023-10-10"),
        ("Windows Server® 2008 Standard", "6.0 (6002)", None, "Windows Server 2008", "2020-01-14"),
        ("Windows Server 2003", "5.2 (3790)", None, "Windows Server 2003", "2015-07-14"),
        ("Windows NT", "4.0", None, "Windows NT", "2004-12-31"),
        ("Windows 2000 Server", "5.0 (2195)", None, "Windows 2000 Server", "2010-07-13"),
        ("Windows 7 Enterprise", "6.1 (7601)", None, "Windows 7", "2020-01-14"),
        ("Windows 8.1 Pro", "6.3 (9600)", None, "Windows 8.1", "2023-01-10"),
        ("Windows XP Professional", "5.1 (2600)", None, "Windows XP", "2014-04-08"),
        ("Windows 10 Pro", "10.0 (19044)", None, "Windows 10", "2023-06-13"),
        ("Windows 10 Enterprise", "10.0 (19044)", None, "Windows 10", "2024-06-11"),
        ("Windows 10 Enterprise LTSC", "10.0 (19044)", None, "Windows 10", "2027-01-12"),
        ("Windows 10 Enterprise 2016 LTSB", "10.0 (14393)", None, "Windows 10", "2026-10-13"),
        ("Windows 11 Pro", "10.0 (26100)", None, "Windows 11", "2026-10-13"),
        ("Windows 11 Enterprise", "10.0.26100", None, "Windows 11", "2027-10-12"),
        ("Microsoft Windows Server 2019 Standard", "10.0.17763", None, "Windows Server 2019", "2029-01-09"),
        ("", "10.0 (20348)", None, "Windows Server 2022", "2031-10-14"),
        ("", "10.0 (14393)", True, "Windows Server 2016", "2027-01-12"),
        ("", "10.0 (14393)", False, "Windows 10", "2019-04-09"),
    ],
)
def test_releases(system, version, is_server, name, ends) -> None:
    release = find_release(system, version, is_server=is_server)
    assert release is not None
    assert release.name == name
    assert find_last_day(release, system) == date.fromisoformat(ends)


@pytest.mark.parametrize(
    ("system", "version", "is_server"),
    [
        ("", "", None),
        ("", "", True),
        ("", "10.0 (14393)", None),
        ("Windows 10 Pro", "", None),
        ("Windows Server 2099", "11.0 (99999)", None),
        ("Windows Server 2022", "10.0 (99999)", None),
        ("Samba", "4.17.12-Debian", None),
        ("", "4.17.12-Debian", None),
        ("OpenLDAP", "10.0 (20348)", None),
    ],
)
def test_what_is_not_known_is_not_guessed(system, version, is_server) -> None:
    assert find_release(system, version, is_server=is_server) is None


def test_the_table_is_sound() -> None:
    keys = [(release.name, release.version, release.build, release.channel) for release in WINDOWS_RELEASES]
    assert len(set(keys)) == len(keys)
    for release in WINDOWS_RELEASES:
        assert date(2000, 1, 1) < release.ends < date(2040, 1, 1)
        assert release.ends_of_companies is None or release.ends_of_companies > release.ends
        # Microsoft ends support on the second Tuesday of a month; NT is an exception
        if release.name != "Windows NT":
            assert release.ends.weekday() == 1, release
    assert TABLE_DATE.year >= 2026
