"""The demonstration without Spark; tests/spark has the comparison of both engines."""

import pytest

SMALL = ("demo", "--no-spark", "--sites", "3", "--machines", "12", "--queues", "90")


@pytest.mark.server
def test_what_it_claims_is_so(alone, tmp_path):
    keep = tmp_path / "kept"
    shown = alone.json(*SMALL, "--keep", str(keep))
    results = {step["title"]: step["results"] for step in shown["steps"]}
    planted = len((keep / "enterprise" / "faults.jsonl").read_text().splitlines())
    _, broken = results["Make up an enterprise, with defects planted"]
    assert broken.startswith(f"{planted} of them are broken")
    counts, *_, told, _ = results["Migrate the tables into the directory, and verify"]
    assert {row[0]: int(row[1]) for row in counts["rows"]}["Queue"] > 90
    assert told.startswith("all that was written was read back and compared: ")
    found, words = results["Search"]
    assert 1 <= len(found["rows"]) <= 4
    assert words.endswith("queues are transactional and may hold more than 1,000,000 KB")
    (made,) = results["Create a queue, and read it"]
    assert ["Label", "Orders"] in made["rows"]
    changed, refused, gone = results["Change it, and delete it"]
    assert changed.startswith("Label is 'Paid orders' now, changed ")
    assert refused.startswith("refused before anything is sent: ")
    assert gone.startswith("ObjectNotFound, result ObjectNotFound: ")
    _, followed, _ = results["Compare what was found with what was planted"]
    assert followed == f"{planted} objects were broken on purpose: 0 missed, 0 found that nobody planted"
    assert "The same export and validation on Spark" not in results
    assert shown["report"] == str(keep / "report.html")
    # what was kept can be served again, and is what was migrated
    state = alone.json("sandbox", "start", str(keep / "directory"))
    try:
        listed = alone.json("list", "queue", "-a", "Pathname", "--url", state["ldapi_url"])
        assert len(listed) > 90
        assert not any("demo.orders" in queue["Pathname"] for queue in listed)
    finally:
        alone("sandbox", "stop", str(keep / "directory"))
    assert "is not empty" in alone.error("demo", "--no-spark", "--keep", str(keep), code=6)


@pytest.mark.server
def test_for_people_it_shows_calls_and_results(alone):
    shown = alone(*SMALL).stdout
    assert "1  A private OpenLDAP with the MSMQ schema ─" in shown
    assert "$ mqdssm generate --sites 3 --machines 12 --queues 90 --seed 1 --format mqis" in shown
    assert "guid = directory.create(mqdssm.Queue(pathname=" in shown
    assert "What to try next" in shown
    assert "$ mqdssm sandbox start ~/msmq" in shown
    assert "All of it took " in shown.splitlines()[-2]
    assert max(len(line) for line in shown.splitlines()) <= 110


def test_an_enterprise_that_cannot_be_is_refused(alone):
    said = alone.error("demo", "--no-spark", "--sites", "9", "--machines", "3", code=2)
    assert "3 machines are too few for 9 sites" in said
