"""The server is killed at many places of conversions and merges. Afterwards every capture is complete once."""

import random

import pytest

from conftest import bytes_below
from queued import TAKESET, bundle, connect, delete, episodes, finished, manifest, merged, queue, running, script


def is_due(server, commands, turn, before, captures):
    """Whether the server has come to where its next kill is due, one of six places by turns; or everything is done."""
    new = commands.read_text().split()[len(before):]
    with connect(server.data) as database:
        (done,) = database.execute("SELECT COUNT(*) FROM conversion WHERE state = 'done'").fetchone()
    places = [
        lambda: "run" in new,
        lambda: bytes_below(server.data / "conversions/.work") > 7919 * turn % 100_000,
        lambda: (server.data / "conversions" / captures[-1]).exists(),  # in place, its row perhaps not
        lambda: done >= len(captures) - 1,  # written, not merged
        lambda: "merge" in new,
        lambda: captures[-1] in episodes(server),
    ]
    return places[turn % len(places)]() or sorted(captures) == episodes(server)


@pytest.mark.parametrize("kills, seed", [(10, 15), pytest.param(100, 150, marks=pytest.mark.slow)])
def test_conversions_survive_kills(start, tmp_path, kills, seed):
    generator = random.Random(seed)
    parts = [bundle(tmp_path / f"bundle{number}", "--seed", number) for number in range(1, 4)]
    commands = tmp_path / "commands"
    commands.touch()
    noting = script(tmp_path / "noting", f"#!/bin/sh\necho $1 >>{commands}\nexec '{TAKESET}' \"$@\"\n")
    server = start("--takeset", noting, conversions=2)
    captures = []
    for turn in range(kills):
        before = commands.read_text().split()
        for _ in range(2):
            captures.append(queue(server.data, "video", generator.choice(parts)))
        if len(captures) > 4 and generator.random() < 0.3:
            delete(server.data, captures.pop(generator.randrange(len(captures))))
        server.until(lambda: is_due(server, commands, turn, before, captures))
        server.kill()
        server.until(lambda: not running(str(server.data / "conversions")))
        server.start()
    # Every capture is complete, its take is in the dataset once, and nothing else is left.
    for found in finished(server, *captures):
        assert found["status"] == "complete" and found["rows"] == 30 and found["attempts"] == 1, found
    dataset = merged(server, *captures)
    assert manifest(dataset)["record"]["totals"]["written"] == len(captures)
    assert sorted(path.name for path in (dataset / "episodes").iterdir()) == sorted(f"{capture}.h5" for capture in captures)
    # Removed at each start, and made for the first conversion after it.
    server.until(lambda: list((server.data / "conversions").glob(".work/*")) == [])
    assert sorted(path.name for path in server.data.joinpath("conversions").iterdir() if path.name != ".work") == sorted(captures)
    assert sorted(path.name for path in server.data.joinpath("datasets").iterdir()) == ["default"]
    assert sorted(path.name for path in server.data.joinpath("captures").iterdir()) == sorted(captures)
    assert list((server.data / "staging").iterdir()) == []
