"""The demonstration without Spark; tests/spark has the whole of it."""

import pytest


@pytest.mark.server
def test_what_it_claims_is_so(alone, tmp_path):
    keep = tmp_path / "kept"
    shown = alone.json("demo", "--no-spark", "--keep", str(keep))
    results = {step["title"]: step["results"] for step in shown["steps"]}
    told = [str(one) for step in results.values() for one in step]
    text = "\n".join(told)
    assert "20 computers, 3 users" in text
    assert "3 sites, 3 links" in text
    assert "20 queue managers, 3 of them routing servers" in text
    assert "200 queues, each with a GUID" in text
    assert "226 created, 226 read, 0 lost; of 1938 attributes 0 differ" in text
    assert "DIRECT=OS:legacy.example.org" in text
    assert sum(one.startswith("PUBLIC=") for one in told) == 4
    assert "cn=berlin08,cn=Servers,cn=Oslo" in text
    assert "10 queues deleted" in text
    assert "ObjectNotFound, result ObjectNotFound: " in text
    assert "180 queues are left" in text
    assert shown["seconds"] < 60
    # what was kept can be served again
    state = alone.json("sandbox", "start", str(keep / "directory"))
    try:
        listed = alone.json("list", "queue", "-a", "Identifier", "--url", state["ldapi_url"])
        assert len(listed) == 180
    finally:
        alone("sandbox", "stop", str(keep / "directory"))
    assert "is not empty" in alone.error("demo", "--no-spark", "--keep", str(keep), code=6)


@pytest.mark.server
def test_for_people_it_shows_calls_and_results(alone):
    shown = alone("demo", "--no-spark").stdout
    assert "1  A private OpenLDAP with the MSMQ schema ─" in shown
    assert 'directory.create(mqdssm.Queue(pathname=r"berlin01\\orders"' in shown
    assert "→ 200 queues, each with a GUID" in shown
    assert "What to try next" in shown
    assert "$ mqdssm sandbox start ~/msmq" in shown
    assert "All of it took " in shown.splitlines()[-1]
    assert max(len(line) for line in shown.splitlines()) <= 110
