"""The recorder, driven by `takeset simulate realitycam-bundle`: what it hashes, ends, and leaves after a kill."""

import base64
import hashlib
import json
import resource
import signal
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from bundles import in_movie
from command import BINARY, measured
from images import frame_code
from outputs import demos, take
from session_faults import tree
from system import limited, share, stopped, until

SMALL = ["--size", "96x72", "--depth-size", "16x12"]


def bundle(takeset, path, *arguments, check=0):
    return takeset("simulate", "realitycam-bundle", "--output", path, *SMALL, *arguments, check=check)


def hashed_frames(path):
    """Bytes of each frame that were hashed, with its time."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return found


def test_the_chain_is_of_the_frames_as_the_camera_gave_them(takeset, tmp_path):
    traced = bundle(takeset, tmp_path / "b", "--seconds", 6, "--hashed", tmp_path / "h", "--trace", "--wander", 0.3).stdout.splitlines()
    frames, last, hashes = hashed_frames(tmp_path / "h"), b"", []
    for frame in frames:
        assert len(frame) == 96 * 72 * 3 + 16 * 12 * 4 + 8
        last = hashlib.sha256(frame + last).digest()
        hashes.append(base64.b64encode(last).decode())
    chain = json.loads((tmp_path / "b/hash_chain.json").read_text())
    assert chain["frame_hashes"] == hashes and len(hashes) == 180
    assert [(point["frame_number"], point["hash"]) for point in chain["checkpoints"]] == [(150, hashes[149])]
    times = [struct.unpack("<d", frame[-8:])[0] for frame in frames]
    assert traced == [f"frame {n} {t}" for n, t in enumerate(times)] + [str(tmp_path / "b")]
    assert times == [tick / 600 for tick in json.loads((tmp_path / "b/truth.json").read_text())["ticks"]]


def test_real_time_gives_the_same_bytes(takeset, tmp_path):
    bundle(takeset, tmp_path / "fast", "--seconds", 1)
    start = time.monotonic()
    bundle(takeset, tmp_path / "real", "--seconds", 1, "--pace", "realtime")
    assert time.monotonic() - start >= 29 / 30 and tree(tmp_path / "fast") == tree(tmp_path / "real")


def test_it_ends_at_fifteen_seconds(takeset, tmp_path):
    bundle(takeset, tmp_path / "b", "--seconds", 16)
    metadata = json.loads((tmp_path / "b/metadata.json").read_text())
    assert (metadata["frame_count"], metadata["depth_keyframe_count"], metadata["duration_ms"]) == (450, 150, 15000)
    assert len(json.loads((tmp_path / "b/hash_chain.json").read_text())["checkpoints"]) == 3 and "is_partial" not in metadata


@pytest.mark.parametrize("options", [["--rate", 0.5, "--seconds", 10], ["--rate", 1, "--wander", 0.45, "--seconds", 12], ["--drop", 60, "--seconds", 4]])
def test_a_slow_camera_is_not_silent(takeset, tmp_path, options):
    bundle(takeset, tmp_path / "b", *options)
    metadata = json.loads((tmp_path / "b/metadata.json").read_text())
    assert metadata["frame_count"] == {0.5: 5, 1: 12, 60: 60}[options[1]] and "is_partial" not in metadata


def test_frames_of_one_time_are_a_mistake_and_not_a_short_video(takeset, tmp_path):
    done = bundle(takeset, tmp_path / "b", "--timescale", 20, check=64)
    assert "--timescale" in done.stderr and not list(tmp_path.iterdir())


@pytest.mark.parametrize(("seconds", "verified"), [(2, 0), (6.5, 150)])
def test_an_interrupted_recording_is_verified_up_to_its_checkpoint(takeset, tmp_path, seconds, verified):
    bundle(takeset, tmp_path / "in/b", "--seconds", 8, "--interrupt-at", seconds, "--keys", tmp_path / "keys.json", "--depth-layout", "rldp")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=["--keys", tmp_path / "keys.json"])
    entry, (demo, _) = take(tmp_path / "out", "b"), demos(tmp_path / "out")["b"]
    assert len(demo["obs/camera_image"]) == seconds * 30 and json.loads((tmp_path / "in/b/metadata.json").read_text())["is_partial"] is True
    assert entry["verification"]["partial"]["verified_frames"] == verified
    assert entry["verification"]["assertion"]["state"] == ("verified" if verified else "absent")


def test_what_is_there_stays(takeset, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").write_text("mine")
    (tmp_path / "cut.recording").mkdir()
    assert bundle(takeset, tmp_path / "full", check=64) and "takeset recover" in bundle(takeset, tmp_path / "cut", check=64).stderr
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["notes.txt"] and not list((tmp_path / "cut.recording").iterdir())
    (tmp_path / "empty").mkdir()
    bundle(takeset, tmp_path / "empty", "--seconds", 0.2)
    assert len(tree(tmp_path / "empty")) == 5


def test_a_full_disk_leaves_the_recording(takeset, tmp_path):
    little = limited(resource.RLIMIT_FSIZE, 120_000)
    done = takeset("simulate", "realitycam-bundle", "--output", tmp_path / "b", *SMALL, "--seconds", 8, preexec_fn=little)
    assert done.returncode == 1 and "File too large" in done.stderr
    # An encoder that is far behind fails when the last frame is recorded already: the bundle of what there is was made then.
    if (tmp_path / "b").exists():
        made = json.loads((tmp_path / "b/metadata.json").read_text())
        is_partial, frames = made["is_partial"], made["frame_count"]
    else:
        (found,) = json.loads(takeset("recover", tmp_path, "--json", check=0).stdout)["recordings"]
        is_partial, frames = found["outcome"] == "partial", found["frames"]
    assert is_partial and 0 < frames < 240
    takeset.convert(tmp_path / "b", output=tmp_path / "out")
    assert [frame_code(image) for image in demos(tmp_path / "out")["b"][0]["obs/camera_image"][:]] == list(range(frames))


def test_what_is_being_recorded_is_not_recovered(takeset, failing_look, tmp_path):
    command = [BINARY, "simulate", "realitycam-bundle", "--output", tmp_path / "b", *SMALL, "--seconds", "2"]
    process = stopped(command, failing_look, "write", tmp_path / "b.recording/journal", 5)
    done = takeset("recover", tmp_path, check=1)
    assert "it is being recorded" in done.stdout and (tmp_path / "b.recording/journal").exists()
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 0 and len(tree(tmp_path / "b")) == 5


def check_killed(takeset, root, least):
    """Recovers and converts killed recordings. `least` are the frames that each must have, and the most."""
    found = {one["id"]: one for one in json.loads(takeset("recover", root / "in", "--json", check=0).stdout)["recordings"]}
    takeset.convert(root / "in", output=root / "out")
    everything = demos(root / "out")
    for name, (fewest, most) in least.items():
        one = found[name]
        assert one["outcome"] == ("partial" if one["frames"] else "nothing"), one
        assert fewest <= one["frames"] <= most, (one, fewest, most)
        assert one["verified_frames"] == one["frames"] // 150 * 150
        if one["frames"]:
            images = everything[name][0]["obs/camera_image"][:]
            assert [frame_code(image) for image in images] == list(range(one["frames"]))
    return found


def test_a_killed_recording_loses_a_second_at_most(takeset, tmp_path):
    """Killed once it has said that a frame is taken, and all but a second of the frames are in the movie."""
    (tmp_path / "in").mkdir()

    def kill(place):
        command = [BINARY, "simulate", "realitycam-bundle", "--output", tmp_path / f"in/take_{place:03}", *SMALL, "--seconds", "15", "--pace", "realtime", "--trace"]
        process = subprocess.Popen([*command, "--seed", str(place)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        said = [process.stdout.readline() for _ in range(place)]
        assert said[-1].startswith(f"frame {place - 1} ")
        until(lambda: in_movie(tmp_path / f"in/take_{place:03}.recording/journal") >= place - 30, f"of {place} frames, {place - 30} are in the movie")
        process.kill()
        said += process.stdout.read().splitlines(keepends=True)
        process.wait()
        # A line that was cut tells of no frame.
        return place - 30, sum(line.startswith("frame") and line.endswith("\n") for line in said) + 1

    places = 20, 75, 130, 190
    with ThreadPoolExecutor(len(places)) as pool:
        check_killed(takeset, tmp_path, {f"take_{place:03}": found for place, found in zip(places, pool.map(kill, places))})


@pytest.mark.slow
def test_killed_recordings_have_what_their_journal_tells(takeset, failing_look, tmp_path):
    """Killed at places all over the journal, which is the truth of what is there."""
    (tmp_path / "in").mkdir()
    least = {}
    numbers = range(0, 200, 200 // share(200))
    for number in numbers:
        name = f"take_{number:03}"
        journal = tmp_path / f"in/{name}.recording/journal"
        command = [BINARY, "simulate", "realitycam-bundle", "--output", tmp_path / "in" / name, *SMALL, "--seconds", "15", "--seed", number + 1]
        process = stopped(command, failing_look, "write", journal, 2 + 7 * number % 600)
        process.kill()
        process.wait()
        least[name] = (in_movie(journal),) * 2 if journal.exists() else (0, 0)
    assert len(check_killed(takeset, tmp_path, least)) == len(numbers)


@pytest.mark.slow
def test_a_large_video_needs_little_memory(takeset, tmp_path):
    code, peak, _ = measured(BINARY, "simulate", "realitycam-bundle", "--output", tmp_path / "b", "--size", "1920x1440", "--seconds", "5")
    assert code == 0 and peak < 300e6, peak / 1e6
