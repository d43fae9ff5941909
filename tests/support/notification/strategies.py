"""Hypothesis strategies for change notifications and topology packets, and the hand-made vectors."""

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from mqdssm.model.discovery import (
    NETWORKS_MAX,
    DirectoryServiceServer,
    TopologyClientRequest,
    TopologyServerReply,
    make_ipx_mask,
)
from mqdssm.model.guid import Guid
from mqdssm.model.notification import (
    ChangeNotification,
    NotificationBody,
    NotificationCommand,
    NotificationEvent,
    NotificationUpdate,
    NotificationUpdates,
)
from support.replication.strategies import GUIDS, TEXT, U32, image_of, property_lists

_FOLDER = Path(__file__).parents[2] / "vectors"
VECTORS: list[dict[str, Any]] = json.loads((_FOLDER / "notification.json").read_text(encoding="utf-8"))
"""Change notifications made by hand, part by part: see tests/vectors/sources.md."""
PACKETS: dict[str, bytes] = {
    one["id"]: bytes.fromhex(one["hex"])
    for one in json.loads((_FOLDER / "discovery.json").read_text(encoding="utf-8"))
}
"""Topology packets by their names: those that Microsoft prints, and the forms of IPX."""
IMAGES: dict[str, bytes] = {one["id"]: image_of(one) for one in VECTORS}
"""Change notifications by their names."""

NAME_CHARS = st.characters(exclude_characters="\0,", exclude_categories=["Cs"])
PATH_NAMES = st.builds(
    "{}\\{}".format,
    st.text(st.characters(exclude_characters="\0\\", exclude_categories=["Cs"]), min_size=1, max_size=8),
    TEXT.filter(bool),
)
DOMAIN_CONTROLLERS = st.text(
    [chr(n) for n in range(0x21, 0x7F) if chr(n) not in "<>&"], min_size=1, max_size=256
)


def updates() -> st.SearchStrategy[NotificationUpdate]:
    """Updates of every kind."""
    names: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({"path_name": PATH_NAMES})
    names |= st.fixed_dictionaries({"guid_identifier": GUIDS})
    return st.builds(
        lambda name, **rest: NotificationUpdate(**name, **rest),
        names,
        command=st.sampled_from(NotificationCommand),
        guid_master_id=GUIDS,
        properties=property_lists(),
    )


BODIES: st.SearchStrategy[NotificationBody] = st.builds(
    NotificationBody,
    event=st.sampled_from(NotificationEvent),
    object_guid=GUIDS,
    domain_controller=DOMAIN_CONTROLLERS,
)
NOTIFICATIONS: st.SearchStrategy[ChangeNotification] = (
    st.builds(NotificationUpdates, updates=st.lists(updates(), max_size=3).map(tuple)) | BODIES
)
"""Change notifications of both versions."""

SERVERS = st.builds(
    DirectoryServiceServer.of,
    st.text(NAME_CHARS, min_size=1, max_size=16),
    ip=st.booleans(),
    ipx=st.booleans(),
)


@st.composite
def replies(draw: st.DrawFn) -> TopologyServerReply:
    """Replies of servers of the client's own and of other sites, over both protocols."""
    networks: tuple[Guid, ...] = tuple(draw(st.lists(GUIDS, min_size=1, max_size=NETWORKS_MAX)))
    servers = draw(st.none() | st.lists(SERVERS, min_size=1, max_size=4).map(tuple))
    return TopologyServerReply(
        correlation_id=draw(GUIDS),
        connected_networks=networks,
        connected_network_mask=draw(st.sampled_from([0, make_ipx_mask(len(networks))])),
        responding_site_id=None if servers is None else draw(GUIDS),
        directory_service_servers=servers,
    )


REQUESTS: st.SearchStrategy[TopologyClientRequest] = st.builds(
    TopologyClientRequest,
    enterprise_id=GUIDS,
    request_id=GUIDS,
    site_id=GUIDS,
    ipx_networks=st.lists(U32, max_size=NETWORKS_MAX).map(tuple),
)
TOPOLOGY_PACKETS: st.SearchStrategy[TopologyClientRequest | TopologyServerReply] = REQUESTS | replies()
"""Topology packets of both kinds."""
