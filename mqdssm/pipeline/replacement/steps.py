"""Steps before and after the replacement of a server, for ``steps.md``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

STEPS_NAME: Final = "steps.md"
CACHE_KEY: Final = r"HKLM:\SOFTWARE\Microsoft\MSMQ\Parameters\MachineCache"
LISTED_MAX: Final = 20
"""Objects that a step lists; the rest is counted."""

_SAVE: Final = (
    "Save the state of the directory with 'mqdssm export'. Save the list of private queues of {old}, which "
    "no directory has: 'mqdssm inventory --add'."
)
_DRAIN: Final = (
    "Stop the programs that send to {old}. Wait until its queues, its outgoing queues and its dead-letter "
    "queues are empty: messages are only on its disk."
)
_STOP: Final = (
    "Stop MSMQ on {old} for good: Stop-Service MSMQ -Force; Set-Service MSMQ -StartupType Disabled. Do not "
    "uninstall MSMQ there: that deletes the queue manager {guid} from the directory."
)
_KEEP_ACCOUNT: Final = (
    "Reset the computer account {new}, and do not delete it. With the account the queue manager and its "
    "queues are deleted; on Active Directory 'mqdssm restore' can bring them back."
)
_BACKUP: Final = (
    "Save messages, private queues and registry of {old}: mqbkup -b FOLDER. On a computer of the same name "
    "with MSMQ installed, mqbkup -r FOLDER restores them."
)
_PROVEN: Final = (
    "Microsoft documents the replacement by a computer of the same name, with mqbkup. That a computer of "
    "another name takes a queue manager over is not documented, and no test of mqdssm runs on Windows: "
    "try it with a computer that nobody needs."
)
_ENABLE: Final = "Enable the computer account {new}: it is disabled."
_STOP_NEW: Final = "Stop MSMQ on {new}: the plan deletes its queue manager, which has no queues."
_DO_NOT_INSTALL: Final = (
    "Do not install MSMQ on {new} yet: the installation makes a queue manager with another GUID."
)
_REPLICATE: Final = "On Active Directory wait until all domain controllers have the changes."
_INSTALL: Final = (
    "Install MSMQ on {new} with directory integration: Install-WindowsFeature MSMQ-Server, MSMQ-Directory. "
    "It should find the queue manager in the directory, and take its GUID."
)
_COMPARE: Final = (
    "Compare the GUID on {new}: [guid][byte[]](Get-ItemProperty '{key}').QMId has to be {guid} (octets "
    "{octets})."
)
_SET: Final = (
    "If it is another one: Stop-Service MSMQ -Force; Set-ItemProperty '{key}' QMId "
    "([guid]'{guid}').ToByteArray(); Start-Service MSMQ."
)
_RENEW_KEYS: Final = (
    "Renew the keys of {new}: Computer Management, Message Queuing, Properties, Server Security, Renew "
    "Cryptographic Keys. The private keys are on the disk of the old computer."
)
_RENEW_CERTIFICATES: Final = (
    "Renew the internal certificates of the accounts that send signed messages from {new}: Message Queuing, "
    "Properties, User Certificate, Renew."
)
_PRIVATE_QUEUES: Final = (
    "Make the private queues again on {new}, with their rights. Format names PRIVATE={guid} end in a number "
    "that the computer gives: an old name is valid only if the queue has the same number."
)
_CHECK: Final = (
    "Check: 'mqdssm read queue-manager ComputerName={new}' shows the Identifier {guid}, 'mqdssm list queue "
    "--machine {new}' shows {queues} queues, and 'mqdssm validate' has no new findings."
)
_RESTART: Final = "Restart MSMQ on machines that send: they remember names and addresses for a while."
_PROGRAMS: Final = (
    "Change the programs that use path names {old}\\… or format names DIRECT=OS:{old}\\…: pathnames.csv has "
    "the new names. Format names PUBLIC=… stay valid. If a DNS alias {old} leads to {new}, set the registry "
    "value IgnoreOSNameValidation of MSMQ there."
)
_ROLE: Final = (
    "The queue manager has the role of a directory server: check that {new} is a domain controller."
)
_ALIASES: Final = "Check queue aliases that address a computer by IP address"
_GROUPS: Final = "Add {new} to groups that {old} is a member of, if it needs their rights"
_RIGHTS: Final = "Give {new}$ the rights that {old}$ has on other objects, if it needs them"
_REMOVE_OLD: Final = (
    "Take {old} out of the network and the domain without uninstalling MSMQ there. MSMQ must never start on "
    "it again: two computers with one GUID take each other's messages."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """Facts that the steps name.

    Attributes:
        old: name of the old computer.
        new: name of the new computer; that of the old one if it stays.
        guid: objectGUID of the queue manager.
        queues: number of its public queues.
        is_disabled: the account of the new computer is disabled.
        has_empty: the new computer has a queue manager without queues, which is deleted.
        is_directory_server: the queue manager is marked as directory server, without a partition.
        undo_makes_guid: an object that the undo file adds gets another GUID.
        aliases: DNs of queue aliases that address computers by IP address.
        groups: DNs of groups that have the old computer as member, and not the new one.
        rights: DNs of other objects with rights for the account of the old computer.
    """

    old: str
    new: str
    guid: UUID
    queues: int
    is_disabled: bool = False
    has_empty: bool = False
    is_directory_server: bool = False
    undo_makes_guid: bool = False
    aliases: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    rights: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """True if the computer keeps its name."""
        return self.old.lower() == self.new.lower()

    def fill_in(self, text: str) -> str:
        """Return the text of a step with the names of the computers and the GUID."""
        return text.format(
            old=self.old,
            new=self.new,
            guid=self.guid,
            octets=self.guid.bytes_le.hex(" "),
            queues=self.queues,
            key=CACHE_KEY,
        )


def list_steps_before(facts: StepFacts) -> tuple[str, ...]:
    """Return the steps before the plan is applied."""
    texts = [_SAVE, _DRAIN, _STOP]
    if facts.is_same:
        texts += [_BACKUP, _KEEP_ACCOUNT]
    else:
        texts += [_ENABLE] if facts.is_disabled else []
        texts.append(_STOP_NEW if facts.has_empty else _DO_NOT_INSTALL)
    return tuple(map(facts.fill_in, texts))


def list_steps_after(facts: StepFacts) -> tuple[str, ...]:
    """Return the steps after the plan was applied."""
    texts = [] if facts.is_same else [_REPLICATE]
    texts += [] if facts.has_empty else [_INSTALL]
    texts += [_COMPARE, _SET, _RENEW_KEYS, _RENEW_CERTIFICATES, _PRIVATE_QUEUES, _CHECK, _RESTART]
    if facts.is_same:
        return tuple(map(facts.fill_in, texts))
    texts.append(_PROGRAMS)
    texts += [_ROLE] if facts.is_directory_server else []
    lists = ((facts.aliases, _ALIASES), (facts.groups, _GROUPS), (facts.rights, _RIGHTS))
    steps = [facts.fill_in(text) for text in texts]
    steps += [f"{facts.fill_in(text)}: {_join_names(names)}." for names, text in lists if names]
    return (*steps, facts.fill_in(_REMOVE_OLD))


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - LISTED_MAX
    return "; ".join([*names[:LISTED_MAX], *([f"and {more} more"] if more > 0 else [])])


def format_document(
    facts: StepFacts, before: Sequence[str], after: Sequence[str], notes: Sequence[str]
) -> str:
    """Return the text of ``steps.md``."""
    lines = [f"# Replacement of {facts.old} by {facts.new}", ""]
    lines += [f"Queue manager {facts.guid}, {facts.queues} public queues.", ""]
    lines += [*(f"* {note}" for note in notes), *([""] if notes else [])]
    lines += ["## Before", "", *_number_steps(before), ""]
    if not facts.is_same:
        undo = "`ldapmodify -c -f undo.ldif` in the folder of the plan moves everything back."
        if facts.has_empty and facts.undo_makes_guid:
            undo += f" The deleted queue manager of {facts.new} gets another GUID then."
        lines += ["## The plan", "", "`mqdssm apply PLAN` moves the queue manager. " + undo, ""]
    lines += ["## After", "", *_number_steps(after), ""]
    lines += [_PROVEN, ""]
    return "\n".join(lines)


def _number_steps(steps: Sequence[str]) -> list[str]:
    return [f"{number}. {step}" for number, step in enumerate(steps, 1)]
