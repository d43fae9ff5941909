"""Planted defects: each is on objects of its own, beside the sound objects.

A fault is a row of data (`mqdssm.samples.fault_table`): its scene, the changes there, and the forms of an
enterprise that allow it. An object has one defect at most, and sound objects are not changed.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

from mqdssm.errors import ConfigError
from mqdssm.events.new_entry import NewEntry
from mqdssm.model.base import DirectoryObject
from mqdssm.model.elements import Enterprise, QueueManager, RoutingLink
from mqdssm.samples import elements
from mqdssm.samples.elements import MachineRoles
from mqdssm.samples.forms import FAULTS_NAME
from mqdssm.samples.plan import EnterprisePlan, MachineRole
from mqdssm.samples.queues import Queues

OBJECTS_FOR_ONE_MORE: Final = 50_000
COPIES_MIN: Final = 2
COPIES_MAX: Final = 10
ROUTER: Final = MachineRole(routing=True, server=True)
CLIENT: Final = MachineRole(server=True)


class EnterpriseForm(Enum):
    """Form of an enterprise and program that loads it.

    Form and program decide which defects are possible.
    """

    MQIS = "mqis"
    LDAPADD = "ldapadd"
    SLAPADD = "slapadd"


MQIS: Final = frozenset({EnterpriseForm.MQIS})
LDIF: Final = frozenset({EnterpriseForm.LDAPADD, EnterpriseForm.SLAPADD})
SLAPADD: Final = frozenset({EnterpriseForm.SLAPADD})
EVERYWHERE: Final = MQIS | LDIF


@dataclass(slots=True)
class Extra:
    """One planted object.

    Attributes:
        type: the type on the command line.
        number: of the object in its type; of a queue the ordinal.
        obj: the element.
        roles: of a queue manager: its role and operating system.
        machine: of a queue: number of its machine.
        site: of a queue manager: number of its site.
        gate: of a site: its routing server.
        settings: of a queue manager: True if it has mSMQSettings.
        faulty: True if it is changed; findings name it.
    """

    type: str
    number: int
    obj: DirectoryObject
    roles: MachineRoles | None = None
    machine: int = 0
    site: int = 0
    gate: QueueManager | None = None
    settings: bool = False
    faulty: bool = False

    @property
    def guid(self) -> UUID:
        """The GUID that the object was made with."""
        return self.obj.identifier or UUID(int=0)


class PlantedNumbers:
    """Counters for the numbers of planted objects.

    The numbers follow those of the sound objects.
    """

    def __init__(self, plan: EnterprisePlan) -> None:
        self.site = count(plan.sites)
        self.machine = count(plan.machines)
        self.queue = count(plan.queues)
        self.user = count(plan.users)
        self.link = count(2 * plan.sites)
        self.stage = count(1)


class FaultStage:
    """Place of one copy of a fault: makes the objects that the fault needs.

    Attributes:
        plan: the enterprise.
        serial: number of the stage.
        copy: index of the copy of the fault.
        extras: the objects that were made.
        rule: the rule of the fault.
    """

    def __init__(self, plan: EnterprisePlan, numbers: PlantedNumbers, rule: str, copy: int) -> None:
        self.plan = plan
        self.rule = rule
        self.copy = copy
        self.serial = next(numbers.stage)
        self.extras: list[Extra] = []
        self._numbers = numbers

    def ghost(self, *names: object) -> UUID:
        """Return the GUID of an object that does not exist."""
        return self.plan.compute_guid("ghost", self.serial, *names)

    @property
    def host(self) -> int:
        """Number of the sound machine for planted queues."""
        return self.serial * 7 % self.plan.machines

    @property
    def home(self) -> int:
        """Number of the sound site for planted machines, never a foreign one."""
        return self.plan.home_of(self.serial % self.plan.sites)

    def queue(self, *, faulty: bool = True) -> Extra:
        """Make a queue."""
        number = next(self._numbers.queue)
        queue = Queues(self.plan, self.host).make_queue(number, name=f"planted.{self.rule}.{number}")
        return self._add(Extra("queue", number, queue, machine=self.host, faulty=faulty))

    def machine(
        self,
        role: MachineRole = CLIENT,
        site: int | None = None,
        *,
        settings: bool | None = None,
        faulty: bool = True,
    ) -> Extra:
        """Make a machine.

        Args:
            role: its role.
            site: number of its site; None: a sound one.
            settings: True for mSMQSettings; None: as its role requires.
            faulty: True if it is changed.
        """
        number = next(self._numbers.machine)
        site = self.home if site is None else site
        machine = elements.make_machine(self.plan, number, role, site)
        extra = Extra("queue-manager", number, machine.manager, roles=machine, site=site, faulty=faulty)
        extra.settings = role.has_settings if settings is None else settings
        return self._add(extra)

    def user(self) -> Extra:
        """Make a user with one certificate."""
        number = next(self._numbers.user)
        return self._add(
            Extra("user", number, elements.make_user(self.plan, number, certificates=1), faulty=True)
        )

    def site(self, *, faulty: bool = True, linked: bool = True) -> Extra:
        """Make a site with a routing server, and link it to a sound one."""
        number = next(self._numbers.site)
        router = self.machine(ROUTER, number, faulty=False)
        gate = router.obj if isinstance(router.obj, QueueManager) else None
        extra = self._add(
            Extra("site", number, elements.make_site(self.plan, number), gate=gate, faulty=faulty)
        )
        if linked:
            self.link(self.home, extra, faulty=False)
        return extra

    def link(self, first: int, second: Extra, *, turned: bool = False, faulty: bool = True) -> Extra:
        """Make a link between a sound site and a planted one."""
        ends = (second.number, first) if turned else (first, second.number)
        link = elements.make_link(self.plan, *ends)
        gates = (self.plan.compute_guid("machine", self.plan.find_gate(first)), self.gate_of(second))
        number = next(self._numbers.link)
        # two planted links may have the same ends
        link.__dict__["identifier"] = self.plan.compute_guid("planted link", number)
        link.__dict__["site_gate_identifier_list"] = gates[:: -1 if turned else 1]
        return self._add(Extra("routing-link", number, link, faulty=faulty))

    def gate_of(self, site: Extra) -> UUID:
        """Return the GUID of the routing server of a planted site."""
        return (site.gate and site.gate.identifier) or UUID(int=0)

    def enterprise(self, obj: Enterprise, *, faulty: bool = True) -> Extra:
        """Make an enterprise object."""
        return self._add(Extra("enterprise", self.serial, obj, faulty=faulty))

    def _add(self, extra: Extra) -> Extra:
        self.extras.append(extra)
        return extra

    def sites_of(self, link: Extra) -> tuple[UUID, ...]:
        """Return the GUIDs of the gates of a link."""
        return link.obj.site_gate_identifier_list if isinstance(link.obj, RoutingLink) else ()


Make = Callable[[FaultStage], Any]
"""Function that makes a value for the stage of a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Kind of defect.

    Attributes:
        rule: id of the rule that must find it.
        type: type of the objects that its findings name.
        scene: makes the needed objects; the faulty ones are changed.
        forms: the forms that allow it: a server refuses some faults, a table or a tree cannot hold others.
        fields: model field -> wrong value; `DROP` unsets it.
        ldap: LDAP attribute -> value or values, where no element can hold the wrong value; None removes it.
            Where it is given, even empty, `fields` are used for tables only.
        ldif: changes the entries of the faulty object: class, name, further entries.
        mqis: column -> wrong value, for tables only.
        whole: True if the enterprise can have only one fault of this kind.
    """

    rule: str
    type: str
    scene: Callable[[FaultStage], object]
    forms: frozenset[EnterpriseForm] = EVERYWHERE
    fields: Mapping[str, Any] = field(default_factory=dict)
    ldap: Mapping[str, Any] | None = None
    ldif: Callable[[FaultStage, dict[str, NewEntry]], None] | None = None
    mqis: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False


DROP: Final = object()
"""Marker for a field without a value."""


class Planted(NamedTuple):
    """One copy of a fault, on its stage."""

    fault: Fault
    stage: FaultStage


class Truth(NamedTuple):
    """One object that a finding must name.

    Attributes:
        rule: id of the rule.
        type: of the object, as on the command line.
        guid: its GUID as text, if it has one.
        dn: its DN in a directory.
    """

    rule: str
    type: str
    guid: str | None
    dn: str | None


def count_copies(plan: EnterprisePlan) -> int:
    """Return the number of copies of each fault."""
    more = (plan.machines + plan.queues + plan.users) // OBJECTS_FOR_ONE_MORE
    return min(COPIES_MIN + more, COPIES_MAX)


def plant(plan: EnterprisePlan, form: EnterpriseForm, faults: tuple[Fault, ...]) -> list[Planted]:
    """Make the objects of all faults that a form can hold.

    Of the faults of the one enterprise object, the seed selects a single one.
    """
    possible = [fault for fault in faults if form in fault.forms]
    whole = [fault for fault in possible if fault.whole]
    numbers = PlantedNumbers(plan)
    planted = []
    for fault in possible:
        if fault.whole and fault is not whole[plan.seed % len(whole)]:
            continue
        for copy in range(1 if fault.whole else count_copies(plan)):
            stage = FaultStage(plan, numbers, fault.rule, copy)
            fault.scene(stage)
            if form is EnterpriseForm.MQIS or fault.ldap is None:
                _change(fault, stage)
            planted.append(Planted(fault, stage))
    return planted


def _change(fault: Fault, stage: FaultStage) -> None:
    """Put wrong values into the elements, without validation."""
    for extra in stage.extras:
        if not extra.faulty:
            continue
        values, present = extra.obj.__dict__, extra.obj.model_fields_set
        for name, wrong in fault.fields.items():
            value = value_of(wrong, stage)
            if value is DROP:
                present.discard(name)
            else:
                values[name] = value
                present.add(name)


def value_of(wrong: Any, stage: FaultStage) -> Any:
    """Return a wrong value: a plain one, or the result of its function on the stage."""
    return wrong(stage) if callable(wrong) else wrong


class TruthComparison(NamedTuple):
    """Difference between findings and planted defects.

    Attributes:
        planted: number of objects that a finding must name.
        missed: planted objects without a finding.
        unplanted: objects of findings without a planted defect.
    """

    planted: int
    missed: tuple[Truth, ...]
    unplanted: tuple[Truth, ...]


def read_truth(folder: Path) -> Counter[Truth]:
    """Read the list of planted defects.

    Args:
        folder: the folder of a sample enterprise with defects.

    Raises:
        ConfigError: the folder has no valid list.
    """
    try:
        lines = (folder / FAULTS_NAME).read_text(encoding="utf-8").splitlines()
        return Counter(Truth(**json.loads(line)) for line in lines)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{folder / FAULTS_NAME} is no list of planted defects: {error}") from error


def compare_with_truth(planted: Counter[Truth], findings: Iterable[Truth]) -> TruthComparison:
    """Compare the findings with the planted defects, object by object."""
    named = Counter(findings)
    return TruthComparison(
        planted.total(), tuple((planted - named).elements()), tuple((named - planted).elements())
    )
