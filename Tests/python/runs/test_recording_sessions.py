"""The recorder, driven by `takeset simulate stack-session`: a session that is killed is whole up to then."""
import json
import resource
import subprocess

import pytest
from command import BINARY
from images import frame_code
from outputs import demos
from system import limited, share, stopped

SMALL = ["--size", "64x48", "--depth-size", "16x12"]
VARIANTS = ["v1", "v2", "v3-raw"]


def test_real_time_gives_the_same_bytes(takeset, tmp_path):
    for pace in ["fast", "realtime"]:
        done = takeset("simulate", "stack-session", "--output", tmp_path / pace, *SMALL, "--seconds", 0.5, "--pace", pace, "--trace", check=0)
        lines = [line.split() for line in done.stdout.splitlines()]
        assert [line[:2] for line in lines[:-1]] == [["frame", str(n)] for n in range(30)] and lines[1][2].startswith("0.0166")
    one, other = ({path.relative_to(root): path.read_bytes() for path in root.rglob("*.*")} for root in (tmp_path / "fast", tmp_path / "realtime"))
    assert one == other


def killed(library, root, number):
    """Records and is killed at a write to its poses. Returns the frames that the recorder said it had taken."""
    folder = root / f"in/session_{number:03}"
    command = [BINARY, "simulate", "stack-session", "--output", folder, *SMALL, "--seconds", "6", "--trace", "--variant", VARIANTS[number % 2]]
    process = stopped(command, library, "write", folder / "poses.json", 3 + 13 * number % 300, stdout=subprocess.PIPE, text=True)
    process.kill()
    said = process.stdout.read()
    process.wait()
    return sum(line.startswith("frame") for line in said[: said.rfind("\n") + 1].splitlines())


@pytest.mark.parametrize("count", [4, pytest.param(share(200), marks=pytest.mark.slow)], ids=["few", "many"])
def test_killed_sessions_have_all_that_was_taken(takeset, failing_look, tmp_path, count):
    (tmp_path / "in").mkdir()
    taken = [killed(failing_look, tmp_path, number) for number in range(count)]
    assert all(0 < frames < 60 * 6 for frames in taken)
    for number, frames in enumerate(taken):
        folder = tmp_path / f"in/session_{number:03}"
        lists = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
        assert frames <= len(lists["poses.json"]) <= frames + 1, (number, frames)
        assert number % 2 == 0 or len(lists["encoders.json"]) >= frames * 50 // 60 - 2
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    everything = demos(tmp_path / "out")
    for number, frames in enumerate(taken):
        images = everything[f"session_{number:03}"][0]["obs/camera_image"][:]
        assert [frame_code(image) for image in images] == list(range(len(images))) and frames <= len(images) <= frames + 1


def test_a_full_disk_ends_the_session_and_leaves_it_whole(takeset, tmp_path):
    little = limited(resource.RLIMIT_FSIZE, 9000)
    done = takeset("simulate", "stack-session", "--output", tmp_path / "in/s", *SMALL, "--seconds", 2, preexec_fn=little)
    assert done.returncode == 1 and "poses.json: cannot be written: File too large" in done.stderr
    poses = json.loads((tmp_path / "in/s/poses.json").read_text())
    assert len(poses) == len(list((tmp_path / "in/s/rgb").iterdir())) > 10
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    assert len(demos(tmp_path / "out")["s"][0]["obs/camera_image"]) == len(poses)
