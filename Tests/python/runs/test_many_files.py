"""Takes of tens of thousands of files, and folders nested a thousand deep."""

import os
import subprocess

import pytest
from command import BINARY, measured
from outputs import finding, manifest, take
from small_sessions import put, session
from system import calls, share

COUNT = share(100_000)
EXTRAS = {
    "images": ("rgb", "{:06}.jpg"),  # of numbers that no pose has
    "files": ("", "{:06}.txt"),
    "folder": ("others", "{:06}.jpg"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXTRAS)
def test_many_files_cost_little_and_change_nothing(takeset, failing_look, tmp_path, kind):
    """Files that are no part of the take are not even opened."""
    for name in "many", "plain":
        put(tmp_path / "takes" / name, session())
    folder, pattern = EXTRAS[kind]
    here = tmp_path / "takes/many" / folder
    here.mkdir(exist_ok=True)
    for number in range(1000, 1000 + COUNT):
        os.close(os.open(here / pattern.format(number), os.O_CREAT | os.O_WRONLY))
    arguments = ["run", tmp_path / "takes", "--isolate", "always", "--jobs", "1"]
    code, peak, seconds = measured(BINARY, *arguments, "--output", tmp_path / "out")
    assert (code, peak < 250e6, seconds < 300e-6 * COUNT) == (0, True, True), (code, peak, seconds)
    many, plain = take(tmp_path / "out", "many"), take(tmp_path / "out", "plain")
    assert many["outcome"] == "written" and many["output"]["content_sha256"] == plain["output"]["content_sha256"]
    takeset("verify", tmp_path / "out", check=0)
    if kind == "images":
        assert finding(many, "pose-missing")["count"] == COUNT
    else:
        assert many["inputs"] == plain["inputs"]
        opened = [calls(takeset, failing_look, "open", tmp_path / f"takes/{name}", "run", tmp_path / "takes", "--isolate", "never", "--jobs", "1",
                        "--output", tmp_path / f"counted-{name}") for name in ("many", "plain")]
        assert 8 < opened[0] <= opened[1]
    print(f"{COUNT} {kind}: {peak / 1e6:.0f} MB, {seconds:.1f} s of processor time")


def nested(root, depth):
    path = str(root)
    for _ in range(depth):
        path += "/d"
        os.mkdir(path)
    return path


@pytest.mark.slow
def test_folders_nested_a_thousand_deep_are_not_searched_to_their_end(takeset, tmp_path):
    """Neither around takes nor in one; where the search has ended is said."""
    takes = tmp_path / "takes"
    try:
        for name in "a", "b":
            put(takes / name, session())
        nested(takes / "a/rgb", 1000)
        bottom = nested(takes, 1000)
        os.mkdir(bottom + "/t")
        for name, data in session().items():
            place = f"{bottom}/t/{name}"
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(data)
        code, peak, seconds = measured(BINARY, "run", takes, "--output", tmp_path / "measured", "--jobs", "1")
        assert (code, peak < 250e6, seconds < 10) == (0, True, True), (code, peak, seconds)
        done = takeset.convert(takes, output=tmp_path / "out")
        assert "is nested deeper than 64 directories and is not searched" in done.stderr
        found = manifest(tmp_path / "out")["record"]["takes"]
        assert {entry["id"]: entry["outcome"] for entry in found} == {"a": "written", "b": "written"}
        assert len({entry["output"]["content_sha256"] for entry in found}) == 1
        # Alone they are no takes.
        done = takeset("run", takes / "d", "--output", tmp_path / "none")
        assert done.returncode == 64 and "holds no take" in done.stderr and not (tmp_path / "none").exists()
        # Named as an input, the take at the bottom is one.
        takeset.convert(f"{bottom}/t", output=tmp_path / "bottom")
        print(f"1000 folders deep: {peak / 1e6:.0f} MB, {seconds:.1f} s of processor time")
    finally:
        subprocess.run(["rm", "-rf", takes], check=True)
