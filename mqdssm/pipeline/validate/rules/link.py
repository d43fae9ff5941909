"""Rules about the topology: sites, links, enterprise and settings.

Links are routing links; settings are settings objects.
"""

from typing import Final

from mqdssm.pipeline.validate.rules.rule import (
    SERVICE,
    GraphRule,
    MissingReference,
    Repeated,
    Rule,
    Severity,
    Unequal,
    Wrong,
)

_LINK: Final = ("routing-link",)
_ADM: Final = "[MS-MQDMPR] 3.1.1.8"
_SITE_ADM: Final = "[MS-MQDMPR] 3.1.1.7"

_SITES: Final = {
    "site": ("Identifier", "ForeignSite"),
    "routing-link": ("Identifier", "Site1Identifier", "Site2Identifier"),
    "queue-manager": ("Identifier", "SiteIdentifierList", "ForeignSystem", "RoutingServer"),
}
_LINKS: Final = {
    "site": ("Identifier",),
    "routing-link": ("Identifier", "Site1Identifier", "Site2Identifier", "SiteGateIdentifierList"),
    "queue-manager": ("Identifier", "SiteIdentifierList"),
}
_SETTINGS: Final = {
    "site": ("Identifier", "FullPath"),
    "queue-manager": (
        *("Identifier", "FullPath", "SiteIdentifierList"),
        *("RoutingServer", "DirectoryServer", "SupportingServer"),
    ),
    "settings": (
        *("Identifier", "FullPath", "QueueManagerIdentifier", "Services"),
        *("RoutingServer", "DirectoryServer", "SupportingServer"),
    ),
}
_COPIES: Final = {**_SETTINGS, "queue-manager": (*_SETTINGS["queue-manager"], SERVICE)}


def _end(number: int) -> tuple[Rule, Rule]:
    attribute = f"Site{number}Identifier"
    description = "both ends of a link are sites that exist"
    missing = MissingReference(
        id="link-sites-exist",
        types=_LINK,
        attribute=attribute,
        section=_ADM,
        requirement=description,
        message="there is no site {value}",
        value=attribute,
        target="site",
        decodes=True,
    )
    unset = Wrong(
        id="link-sites-exist",
        types=_LINK,
        attribute=attribute,
        section=_ADM,
        requirement=description,
        message=f"{attribute} names no site",
        condition=f"{attribute} is null",
    )
    return missing, unset


def _make_link_rule(name: str, severity: Severity, attribute: str, description: str) -> GraphRule:
    return GraphRule(
        id=name,
        severity=severity,
        types=_LINK,
        attribute=attribute,
        section=_ADM,
        requirement=description,
        drawing="links",
        reads=_LINKS,
    )


def _make_settings_rule(name: str, severity: Severity, attribute: str, description: str) -> GraphRule:
    return GraphRule(
        id=name,
        severity=severity,
        types=("queue-manager" if name == "settings-exist" else "settings",),
        attribute=attribute,
        section="[MS-MQDSSM] 3.1.6.1.1.3, 3.1.6.7.1.9",
        requirement=description,
        drawing="settings",
        reads=_COPIES if name == "settings-equal" else _SETTINGS,
    )


def _make_site_rule(name: str, severity: Severity, attribute: str, description: str) -> GraphRule:
    return GraphRule(
        id=name,
        severity=severity,
        types=("site",),
        attribute=attribute,
        section=_SITE_ADM,
        requirement=description,
        drawing="sites",
        reads=_SITES,
    )


RULES: Final[tuple[Rule, ...]] = (
    GraphRule(
        id="enterprise-single",
        types=("enterprise",),
        attribute="Identifier",
        section="[MS-MQDSSM] 2.2.3",
        requirement="there is exactly one enterprise object",
        drawing="enterprise",
        reads={"enterprise": ("Identifier",)},
    ),
    Wrong(
        id="enterprise-name-style",
        severity="warning",
        types=("enterprise",),
        attribute="WeakenedSecurity",
        section="[MS-MQDMPR] 3.1.1.6, [MS-MQDSSM] 3.1.6.11.3.2",
        requirement="mSMQNameStyle is known, and does not weaken the security of the whole enterprise",
        message="WeakenedSecurity is {WeakenedSecurity}: every machine accepts what MSMQ 1.0 sends unsigned",
        condition="WeakenedSecurity",
        decodes=True,
    ),
    Repeated(
        id="site-name-unique",
        types=("site",),
        attribute="Name",
        section=_SITE_ADM,
        requirement="a site's name is unique",
        message="{count} sites are called {value}",
        key="lower(Name)",
    ),
    _make_site_rule(
        "site-unreachable", "warning", "FullPath", "a way of routing links leads to every site in use"
    ),
    _make_site_rule(
        "site-foreign-consistent",
        "warning",
        "ForeignSite",
        "foreign systems are in foreign sites, and others are not, but for connectors",
    ),
    *_end(1),
    *_end(2),
    Wrong(
        id="link-ends-differ",
        types=_LINK,
        attribute="Site2Identifier",
        section=_ADM,
        requirement="a link joins two sites",
        message="both ends are site {Site1Identifier}",
        condition="Site1Identifier = Site2Identifier",
    ),
    MissingReference(
        id="link-gates-exist",
        types=_LINK,
        attribute="SiteGateIdentifierList",
        section=f"{_ADM}, [MS-MQDSSM] 3.1.6.11.5.3",
        requirement="every gate of a link exists",
        message="there is no queue manager {value}",
        value="SiteGateIdentifierList",
        target="queue-manager",
        decodes=True,
    ),
    Unequal(
        id="link-gate-role",
        types=_LINK,
        attribute="SiteGateIdentifierList",
        section=_ADM,
        requirement="every gate of a link is a routing server",
        message="gate {value} is no routing server",
        value="SiteGateIdentifierList",
        target="queue-manager",
        condition="not other.RoutingServer",
    ),
    _make_link_rule("link-duplicate", "warning", "Site1Identifier", "two sites are joined by one link"),
    _make_link_rule(
        "link-gate-site", "error", "SiteGateIdentifierList", "a gate is in one of the sites that it joins"
    ),
    _make_link_rule(
        "link-one-way", "warning", "SiteGateIdentifierList", "a link with gates has them on both sides"
    ),
    _make_settings_rule(
        "settings-exist",
        "error",
        "SiteIdentifierList",
        "a server has an mSMQSettings object in each of its sites",
    ),
    _make_settings_rule(
        "settings-superfluous", "warning", "FullPath", "no mSMQSettings object is there that nobody needs"
    ),
    _make_settings_rule(
        "settings-equal",
        "error",
        "QueueManagerIdentifier",
        "an mSMQSettings object repeats its queue manager",
    ),
    _make_settings_rule(
        "settings-queue-manager-exists",
        "error",
        "QueueManagerIdentifier",
        "the queue manager of an mSMQSettings object exists",
    ),
)
