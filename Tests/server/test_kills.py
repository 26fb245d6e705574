"""The server is killed at random moments of conversions and merges. Afterwards every capture is complete once."""

import random
import time

import pytest

from queued import TAKESET, bundle, delete, finished, manifest, merged, queue, row, running


def settled(server, captures):
    """Every capture is complete, its take is in the dataset once, and nothing else is left."""
    for found in finished(server, *captures, seconds=60 + 10 * len(captures)):
        assert found["status"] == "complete" and found["rows"] == 30, found
    dataset = merged(server, *captures, seconds=120)
    record = manifest(dataset)["record"]
    assert record["totals"]["written"] == len(captures)
    assert sorted(path.name for path in (dataset / "episodes").iterdir()) == sorted(f"{capture}.h5" for capture in captures)
    # Removed at each start, and made for the first conversion after it.
    server.until(lambda: list((server.data / "conversions").glob(".work/*")) == [])
    assert sorted(path.name for path in server.data.joinpath("conversions").iterdir() if path.name != ".work") == sorted(captures)
    assert sorted(path.name for path in server.data.joinpath("datasets").iterdir()) == ["default"]
    assert sorted(path.name for path in server.data.joinpath("captures").iterdir()) == sorted(captures)
    assert list((server.data / "staging").iterdir()) == []


def suite(start, tmp_path, kills, seed):
    generator = random.Random(seed)
    parts = [bundle(tmp_path / f"bundle{number}", "--seed", number) for number in range(1, 4)]
    server = start("--takeset", TAKESET, conversions=2)
    captures = []
    for _ in range(kills):
        for _ in range(2):
            captures.append(queue(server.data, "video", generator.choice(parts)))
        if len(captures) > 4 and generator.random() < 0.3:
            delete(server.data, captures.pop(generator.randrange(len(captures))))
        time.sleep(generator.uniform(0, 1.5))
        server.kill()
        begun = time.monotonic()
        while running(str(server.data / "conversions")):
            assert time.monotonic() - begun < 5, "a child outlived its server"
            time.sleep(0.01)
        server.start()
    settled(server, captures)
    assert all(row(server.data, capture)["attempts"] == 1 for capture in captures)


def test_conversions_survive_ten_kills(start, tmp_path):
    suite(start, tmp_path, 10, 15)


@pytest.mark.slow
def test_conversions_survive_a_hundred_kills(start, tmp_path):
    suite(start, tmp_path, 100, 150)
