"""Takes of several phones, joined to one episode: against the truth of what was simulated, and against the takes by themselves."""

import hashlib
import json
import shutil

import h5py
import numpy as np
import pytest
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, manifest

MEMBERS = {"left": "*-left", "right": "*-right", "head": "*-head"}
SKEWS = {"left": 0.083, "right": 0.3, "head": 0.02}


def pipeline(folder, join, *steps):
    path = folder / "join.yaml"
    path.write_text(json.dumps({"version": 1, "join": join, "transforms": ["align", *steps]}))
    return path


@pytest.fixture(scope="module")
def session(takeset, tmp_path_factory):
    """Makes a demonstration of some phones, by its folder's name."""
    root = tmp_path_factory.mktemp("sessions")

    def make(name, *sides, seconds=1, seed=1, quirks=()):
        folder = root / name
        if not folder.exists():
            skews = [part for side in sides for part in ("--skew", f"{side}={SKEWS[side]}")]
            takeset("simulate", "iphumi", "-o", folder, "--seconds", seconds, "--seed", seed, "--size", "96x72", "--phones", ",".join(sides), *skews,
                    *[part for quirk in quirks for part in ("--quirk", quirk)], check=0)  # fmt: skip
        return folder

    return make


def raw_export(folder, into, recording):
    """The same as the app exports it: a folder for each phone."""
    for file in sorted(folder.iterdir()):
        if file.name != "truth.json":
            side, rest = file.stem.split("_")[0], file.name.removeprefix(file.stem.split("_")[0])
            target = into / f"{recording}_{side}" / f"{recording}_{side}{rest}"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)


@pytest.fixture(scope="module")
def joined(takeset, session, tmp_path_factory):
    """A dataset of all that can happen to a group."""
    root = tmp_path_factory.mktemp("joined")
    takes = root / "takes"
    copies = {"three": session("three", "left", "right", "head", quirks=["skipped-frames"]), "two": session("two", "left", "head", seed=5),
              "damaged": session("two", "left", "head", seed=5)}  # fmt: skip
    for name, folder in copies.items():
        shutil.copytree(folder, takes / name)
    for ending in "json", "_rgb.mp4", "_depth.raw", "_ultrawidergb.mp4":
        name = f".{ending}" if ending == "json" else ending
        shutil.copy(takes / "three" / f"right{name}", takes / "damaged" / f"right{name}")
    short = session("short", "left", seconds=0.4, seed=9)
    shutil.copytree(session("three", "left", "right", "head", quirks=["skipped-frames"]), takes / "early")
    for file in short.glob("left*"):
        shutil.copy(file, takes / "early")
    video = takes / "damaged" / "left_rgb.mp4"
    video.write_bytes(video.read_bytes()[:2000])
    takeset("simulate", "stack-session", "-o", takes / "other", "--seconds", 0.5, check=0)
    output = root / "dataset"
    done = takeset("run", takes, "-o", output, "--pipeline", pipeline(root, {"by": "session", "members": MEMBERS, "reference": "head"}))
    assert done.returncode == 3, done.stderr
    return takes, output, {entry["id"]: entry for entry in manifest(output)["record"]["takes"]}


def demo(output, name):
    file = h5py.File(output / "episodes" / f"{name}.h5")
    return file["data/demo_0"], file["meta/demo_0"]


def moments(truth, side):
    """The times of a phone's frames in Unix time, as the files have them: the start in milliseconds, the steps in tenths of one."""
    start, times = truth[side]["start_unix_ns"], np.array(truth[side]["frame_time_ns"])
    return round(start, -6) + np.round(times, -5)


def check_against_truth(output, name, truth, without=()):
    data, meta = demo(output, name)
    rows = meta["timestamp_ns"][:] + meta["timestamp_ns"].attrs["origin_ns"]
    for side in truth:
        own = moments(truth, side)
        nearest = np.abs(own[None, :] - rows[:, None]).argmin(axis=1)
        distance = own[nearest] - rows
        reached = np.abs(distance) <= 50_000_000
        index, delay = meta[f"streams/{side}_pose/source_index"][:], meta[f"streams/{side}_pose/dt_ns"][:]
        # A recording that starts in the middle of a millisecond is rounded, and what is rounded may decide between two.
        chosen = np.abs(own[np.maximum(index, 0)] - rows)
        assert ((chosen - np.abs(distance) < 1_200_000) | ~reached | np.isin(nearest, without)).all()
        assert np.array_equal(index >= 0, reached) and np.array_equal(meta[f"streams/{side}_pose/valid"][:], reached)
        assert np.abs(delay - (own[np.maximum(index, 0)] - rows))[reached].max() < 1_200_000
        expected = np.array(truth[side]["camera_to_world"]).reshape(-1, 4, 4)
        assert np.abs(matrices(data[f"obs/{side}_pose"][:][reached]) - expected[index[reached]]).max() < 1e-5
        assert np.isnan(data[f"obs/{side}_pose"][:][~reached]).all()
        images = meta[f"streams/{side}_camera_image/source_index"][:]
        shown = images >= 0
        assert [frame_code(image) for image in data[f"obs/{side}_camera_image"][:][shown]] == images[shown].tolist()
        assert (np.abs(own[np.maximum(images, 0)] - rows)[shown] - np.abs(distance[shown]) < 18_000_000).all()


def test_every_member_has_the_sample_nearest_to_the_row(joined):
    takes, output, entries = joined
    entry = entries["three"]
    assert entry["outcome"] == "written" and entry["reader"] == "join" and entry["steps"][0]["name"] == "join"
    check_against_truth(output, "three", json.loads((takes / "three/truth.json").read_text()), without=(3, 9))
    data, meta = demo(output, "three")
    assert {stream["member"] for stream in entry["alignment"]} == {"left", "right", "head"}
    assert {meta["timestamp_ns"].attrs["clock"], data["obs/left_pose"].attrs["member"]} == {"phone-unix", "left"}
    assert meta["timestamp_ns"].attrs["unix_origin_ns"] == meta["timestamp_ns"].attrs["origin_ns"]
    assert {data[f"obs/{side}_pose"].attrs["world"] for side in MEMBERS} == {"session"}
    assert meta["left_intrinsics"].shape == meta["left_camera_depth_intrinsics"].shape == (len(data["obs/left_pose"]), 4)


def test_inputs_are_below_the_names_of_members(joined):
    takes, _, entries = joined
    for one in entries["three"]["inputs"]:
        side, name = one["path"].split("/")
        assert name.startswith(side) and hashlib.sha256((takes / "three" / name).read_bytes()).hexdigest() == one["sha256"]
    assert len(entries["three"]["inputs"]) == 12


def test_what_becomes_of_other_groups(joined):
    _, output, entries = joined
    assert entries["two"]["outcome"] == "rejected" and "join-incomplete: there is no take of right" in entries["two"]["reason"]
    assert "these took part: head, left" in entries["two"]["reason"]
    damaged = entries["damaged"]
    assert damaged["outcome"] == "failed" and damaged["reason"].startswith("left/left_rgb.mp4: ")
    assert "join-alone" in codes(entries["other"]) and entries["other"]["outcome"] == "written"
    assert set(entries) == {"three", "two", "damaged", "other", "early"}
    incomplete = [found for found in entries["early"]["findings"] if found["code"] == "stream-incomplete" and found.get("field") == "left"]
    assert len(incomplete) == 1 and "ends" in incomplete[0]["message"]
    valid = demo(output, "early")[1]["streams/left_pose/valid"][:]
    assert valid[10] == 1 and not valid[-10:].any()


def test_the_dataset_is_sound_and_every_row_can_be_made_again(takeset, joined):
    _, output, _ = joined
    assert takeset("verify", output).returncode == 0
    trace = takeset("trace", output, "--episode", "three", "--row", 20)
    assert trace.returncode == 0 and "left/left_rgb.mp4" in trace.stdout and "made again the same" in trace.stdout
    assert "is missing" not in trace.stdout and "reproduced  yes" in trace.stdout


def shards(output):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted((output / "episodes").iterdir())}


def test_bytes_depend_neither_on_jobs_nor_on_isolation_nor_on_the_path(takeset, joined, tmp_path):
    takes, output, _ = joined
    moved = shutil.copytree(takes, tmp_path / "elsewhere")
    file = pipeline(tmp_path, {"by": "session", "members": MEMBERS, "reference": "head"})
    for number, options in enumerate((["--jobs", 1], ["--jobs", 7], ["--isolate", "always"], ["--isolate", "never"])):
        takeset("run", moved if number else takes, "-o", tmp_path / str(number), "--pipeline", file, *options)
        assert shards(tmp_path / str(number)) == shards(output)
    # Only what failed is tried again.
    again = takeset("run", moved, "-o", tmp_path / "1", "--pipeline", file)
    assert "4 unchanged" in again.stdout, again.stdout


def test_a_member_that_comes_later_or_changes_makes_the_take_anew(takeset, session, tmp_path):
    takes, output = tmp_path / "takes", tmp_path / "dataset"
    shutil.copytree(session("three", "left", "right", "head", quirks=["skipped-frames"]), takes / "demo")
    late = sorted((takes / "demo").glob("right*"))
    for file in late:
        file.rename(tmp_path / file.name)
    run = ["run", takes, "-o", output, "--pipeline", pipeline(tmp_path, {"members": MEMBERS})]
    assert "join-incomplete" in takeset(*run).stderr
    for file in late:
        (tmp_path / file.name).rename(file)
    takeset(*run, check=0)
    entries = manifest(output)["record"]["takes"]
    assert [(entry["id"], entry["outcome"]) for entry in entries] == [("demo", "written")]
    document = json.loads((takes / "demo/left.json").read_text())
    document["poseTransforms"][5][0][3] += 1
    (takes / "demo/left.json").write_text(json.dumps(document))
    assert "its inputs have changed" in takeset(*run, check=0).stderr
    assert "nothing to do" in takeset(*run, check=0).stdout


def test_recordings_in_folders_of_their_own_are_joined_by_their_names(takeset, session, tmp_path):
    folder = session("three", "left", "right", "head", quirks=["skipped-frames"])
    for recording in "2026-11-01T10-00-00_a1_s1_demonstration", "2026-11-01T10-05-00_b2_s1_demonstration":
        raw_export(folder, tmp_path / "2026-11-01", recording)
    members = {side: f"*_{side}" for side in MEMBERS}
    file = pipeline(tmp_path, {"members": members, "reference": "head"})
    takeset("run", tmp_path / "2026-11-01", "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    entries = manifest(tmp_path / "dataset")["record"]["takes"]
    assert [entry["id"] for entry in entries] == ["2026-11-01T10-00-00_a1_s1_demonstration", "2026-11-01T10-05-00_b2_s1_demonstration"]
    check_against_truth(tmp_path / "dataset", entries[0]["id"], json.loads((folder / "truth.json").read_text()), without=(3, 9))
    # A copy of one phone's recording: nobody knows which of the two belongs to the others.
    first = next((tmp_path / "2026-11-01").glob("*a1*_left"))
    shutil.copytree(first, tmp_path / "2026-11-01/copy")
    takeset("run", tmp_path / "2026-11-01", "-o", tmp_path / "again", "--pipeline", file)
    entries = {entry["id"]: entry for entry in manifest(tmp_path / "again")["record"]["takes"]}
    failed = {name for name, entry in entries.items() if entry["outcome"] == "failed"}
    assert all("join-ambiguous" in codes(entries[name]) for name in failed) and len(failed) == 4 and len(entries) == 5


def test_one_member_is_that_take_with_other_names(takeset, tmp_path):
    takeset("simulate", "iphumi", "-o", tmp_path / "takes/one-head", "--seconds", 0.7, "--size", "96x72", "--quirk", "skipped-frames", check=0)
    takeset("simulate", "stack-session", "-o", tmp_path / "takes/two-head", "--seconds", 0.7, check=0)
    file = pipeline(tmp_path, {"by": "name", "members": {"head": "*-head"}})
    takeset("run", tmp_path / "takes", "-o", tmp_path / "joined", "--pipeline", file, check=0)
    plain = tmp_path / "plain.yaml"
    plain.write_text("{version: 1, transforms: [align]}")
    takeset("run", tmp_path / "takes", "-o", tmp_path / "alone", "--pipeline", plain, check=0)
    for name in "one", "two":
        (data, meta), (own, about) = demo(tmp_path / "joined", name), demo(tmp_path / "alone", f"{name}-head")
        assert {f"head_{key}" for key in own["obs"]} == set(data["obs"])
        for key in own["obs"]:
            assert data[f"obs/head_{key}"].dtype == own[f"obs/{key}"].dtype and np.array_equal(data[f"obs/head_{key}"], own[f"obs/{key}"], equal_nan=True)
        for key, group in about["streams"].items():
            for part in group:
                assert np.array_equal(meta[f"streams/head_{key}/{part}"], group[part]), (key, part)
        for key in "timestamp_ns", "quality", "gaps", "source_index":
            assert np.array_equal(meta[key], about[key])
        for key in [key for key in about if key.endswith("intrinsics")]:
            assert np.array_equal(meta[f"head_{key}"], about[key])


def test_an_offset_is_added_to_the_times_of_its_member(takeset, session, tmp_path):
    folder = session("two", "left", "head", seed=5)
    for seconds in 0, 0.1:
        file = pipeline(tmp_path, {"members": {"head": "*-head", "left": "*-left"}, "offset": {"left": seconds}})
        takeset("run", folder, "-o", tmp_path / f"{seconds}", "--pipeline", file, check=0)
    truth = json.loads((folder / "truth.json").read_text())
    check_against_truth(tmp_path / "0", "two", truth)
    truth["left"]["start_unix_ns"] += 100_000_000
    check_against_truth(tmp_path / "0.1", "two", truth)


def test_steps_change_every_member_or_the_one_they_name(takeset, session, tmp_path):
    steps = [{"resize-image": {"width": 48, "height": 36}}, {"crop": {"center": [20, 20], "member": "left"}},
             {"pose-frame": {"axes": "opencv", "origin": "first-frame", "member": "left"}}, {"actions": {"kind": "relative-6d"}}]  # fmt: skip
    file = pipeline(tmp_path, {"members": MEMBERS, "reference": "head"}, *steps)
    folder = session("three", "left", "right", "head", quirks=["skipped-frames"])
    takeset("run", folder, "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    data, _ = demo(tmp_path / "dataset", "three")
    assert [data[f"obs/{side}_camera_image"].shape[1:3] for side in ("left", "right", "head")] == [(20, 20), (36, 48), (36, 48)]
    assert [data[f"obs/{side}_pose"].attrs["world"] for side in ("left", "right", "head")] == ["left", "session", "session"]
    parts = "left_relative_position:3 left_relative_rotation_6d:6 right_relative_position:3 right_relative_rotation_6d:6"
    assert data["actions"].attrs["parts"] == parts and "world" not in data["actions"].attrs
    rows, poses = np.flatnonzero(data["actions_valid"][:-1]), data["obs/right_pose"][:]
    steps = np.linalg.inv(matrices(poses[rows])) @ matrices(poses[rows + 1])
    assert len(rows) > 20
    assert np.abs(data["actions"][:][rows, 9:12] - steps[:, :3, 3]).max() < 1e-5
    assert np.abs(data["actions"][:][rows, 12:18] - np.concatenate([steps[:, :3, 0], steps[:, :3, 1]], axis=1)).max() < 1e-5
