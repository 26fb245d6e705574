"""A disk that fails at any one write of a recording: what was recorded stays, and nothing is claimed that is not there."""

import json
import os
import shutil

import pytest
from images import frame_code
from outputs import demos
from system import share

# Of the writes, each so many; every one with TAKESET_ALL=1.
STEP = 2000 // share(2000)
SMALL = ["--size", "64x48", "--depth-size", "16x12", "--seconds", 2]


@pytest.mark.slow
def test_a_bundle_survives_a_failure_of_any_write(takeset, failing_write, tmp_path):
    failures = 0
    for number in range(1, 2000, STEP):
        root = tmp_path / "in"
        environment = os.environ | {"LD_PRELOAD": str(failing_write), "FAIL_AT": str(number), "FAIL_IN": str(tmp_path / "in")}
        done = takeset("simulate", "realitycam-bundle", "--output", root / "take", *SMALL, "--depth-layout", "rldp", env=environment)
        if done.returncode == 0:
            assert number > 60 and sorted(path.name for path in root.iterdir()) == ["take"]
            break
        failures += 1
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "No space left on device" in done.stderr, (number, done.stderr)
        found = json.loads(takeset("recover", root, "--json").stdout)["recordings"]
        for one in found:
            assert one["outcome"] in {"partial", "nothing", "complete", "failed"} and one["verified_frames"] in {0, one["frames"]}, (number, one)
            # Only a recording whose description was not written cannot be read.
            assert one["outcome"] != "failed" or not (root / "take.recording/journal").exists(), (number, one)
        if (root / "take").exists():
            takeset.convert(root / "take", output=tmp_path / "out")
            images = demos(tmp_path / "out")["take"][0]["obs/camera_image"][:]
            assert [frame_code(image) for image in images] == list(range(len(images))) and len(images) in {15, 30, 45, 60}, number
            shutil.rmtree(tmp_path / "out")
        shutil.rmtree(root)
    assert failures > 60 // STEP


@pytest.mark.slow
def test_a_session_survives_a_failure_of_any_write(takeset, failing_write, tmp_path):
    for number in range(1, 3000, STEP):
        root = tmp_path / "in/session"
        environment = os.environ | {"LD_PRELOAD": str(failing_write), "FAIL_AT": str(number), "FAIL_IN": str(tmp_path / "in")}
        done = takeset("simulate", "stack-session", "--output", root, *SMALL[:4], "--seconds", 0.5, env=environment)
        if done.returncode == 0:
            assert number > 60
            return
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "No space left on device" in done.stderr, (number, done.stderr)
        if (root / "poses.json").exists():
            poses = json.loads((root / "poses.json").read_text())
            images = {path.name for path in (root / "rgb").iterdir()}
            assert all(f"{pose['rgbIndex']:06}.jpg" in images for pose in poses), number
        shutil.rmtree(tmp_path / "in", ignore_errors=True)
