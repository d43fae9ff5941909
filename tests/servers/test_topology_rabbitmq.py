"""Definitions for RabbitMQ, imported into a real one, and compared through its management API."""

import json
from pathlib import Path

import pytest
from support.enterprises.rules_world import OWNER, descriptor, queue, sound, tables
from support.servers.private_rabbitmq import running, why_none
from support.spark.exports import write_export

from mqdssm.pipeline.inventory import open_source
from mqdssm.pipeline.topology import Broker, convert
from mqdssm.wire.acl import allow
from mqdssm.wire.masks import QueueAccess
from mqdssm.wire.sid import EVERYONE

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]
HOST = "msmq"


def definitions(folder: Path) -> Path:
    made = sound()
    rights = descriptor(allow(EVERYONE, QueueAccess.WRITE_MESSAGE), allow(OWNER, QueueAccess.GENERIC_ALL))
    made["queue"] += [
        queue(100 + n, machine, name, Security=rights, **more)
        for n, (machine, name, more) in enumerate(
            [
                ("web01", "a b's ${x}_y.z$", {"Journaling": True, "Quota": 100, "JournalQuota": 10}),
                ("web01", "ü" * 60, {"Journaling": True, "Transactional": False}),
                ("web02", "prices", {"MulticastAddress": "234.1.2.3:80"}),
                ("web03", "prices", {"MulticastAddress": "234.1.2.3:80"}),
                *(("web02", f"many{number}", {}) for number in range(300)),
            ]
        )
    ]
    write_export(folder / "export", tables(made))
    with open_source(folder / "export") as source:
        convert(source, Broker.RABBITMQ, folder / "out")
    return folder / "out" / "definitions.json"


@pytest.mark.skipif(bool(why_none()), reason=why_none())
def test_a_real_server_takes_them(tmp_path):
    made = json.loads(definitions(tmp_path).read_text())
    (tmp_path / "node").mkdir()
    with running(tmp_path / "node") as node:
        node.ask("definitions", made)
        queues = {one["name"]: one for one in node.ask(f"queues/{HOST}")}
        assert set(queues) == {one["name"] for one in made["queues"]}
        for one in made["queues"]:
            stored = queues[one["name"]]
            assert (stored["arguments"], stored["durable"]) == (one["arguments"], True)
        policies = {one["name"]: one.get("effective_policy_definition") for one in queues.values()}
        for computer in ("web01", "web02", "web03"):
            expected = {"dead-letter-exchange": f"deadletter.{computer}"}
            named = [policy for name, policy in policies.items() if name.startswith(f"queue.{computer}.")]
            assert named
            assert all(policy == expected for policy in named)
        own = {one["name"] for one in made["exchanges"]}
        assert own <= {one["name"] for one in node.ask(f"exchanges/{HOST}")}
        bindings = {
            (one["source"], one["destination"], one["destination_type"])
            for one in node.ask(f"bindings/{HOST}")
            if one["source"]  # not those of the default exchange
        }
        assert bindings == {
            (one["source"], one["destination"], one["destination_type"]) for one in made["bindings"]
        }
        keys = ("user", "vhost", "configure", "write", "read")
        granted = [{key: one[key] for key in keys} for one in node.ask("permissions") if one["vhost"] == HOST]
        ours = {one["user"]: one for one in granted if one["user"] != "guest"}
        assert ours == {one["user"]: one for one in made["permissions"]}
        users = {one["name"]: one for one in node.ask("users")}
        assert all(users[one["name"]]["password_hash"] == "" for one in made["users"])
        # a message goes to the queue and to its journal
        name = next(one for one in queues if one.startswith("queue.web01.a_20b"))
        sent = node.ask(
            f"exchanges/{HOST}/{name}/publish",
            {"properties": {}, "routing_key": "", "payload": "x", "payload_encoding": "string"},
        )
        assert sent == {"routed": True}
        for queue_name in (name, name.replace("queue.", "journal.", 1)):
            got = node.ask(
                f"queues/{HOST}/{queue_name}/get",
                {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"},
            )
            assert [one["payload"] for one in got] == ["x"]
        node.ask("definitions", made)  # a second import changes nothing
        assert len(node.ask(f"queues/{HOST}")) == len(queues)
