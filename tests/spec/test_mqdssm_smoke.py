import mqdssm


def test_world(world) -> None:
    guid = world.queue(label="Orders")
    queue = world.directory.read(mqdssm.Queue, mqdssm.Filter("Identifier", "==", guid))
    assert world.ldap.entry(queue.full_path)["mSMQLabelEx"] == [b"Orders"]
