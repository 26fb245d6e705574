"""Takes of several phones, joined to one episode: against the truth of what was simulated, and against the takes by themselves."""

import hashlib
import json
import shutil

import h5py
import numpy as np
import pytest
import takeset as takeset_package
import zarr
from geometry_oracle import matrices
from images import frame_code
from lerobot_datasets import export
from outputs import codes, manifest
from scipy.spatial.transform import Rotation

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
    inputs = takeset("verify", output, "--inputs")
    assert inputs.returncode == 0, inputs.stdout
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
        assert manifest(tmp_path / str(number))["record"] == manifest(output)["record"]
    # Only what failed is tried again.
    again = takeset("run", moved, "-o", tmp_path / "1", "--pipeline", file)
    assert "4 unchanged, 1 failed" in again.stdout, again.stdout


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
    axes = {name: camera.axes for name, camera in takeset_package.open(tmp_path / "dataset")["three"].cameras.items()}
    assert axes["left_camera"] == "x right, y down, z forward" and axes["right_camera"] == axes["head_camera"] == "x right, y up, z back"
    parts = "left_relative_position:3 left_relative_rotation_6d:6 right_relative_position:3 right_relative_rotation_6d:6"
    assert data["actions"].attrs["parts"] == parts and "world" not in data["actions"].attrs
    rows, poses = np.flatnonzero(data["actions_valid"][:-1]), data["obs/right_pose"][:]
    steps = np.linalg.inv(matrices(poses[rows])) @ matrices(poses[rows + 1])
    assert len(rows) > 20
    assert np.abs(data["actions"][:][rows, 9:12] - steps[:, :3, 3]).max() < 1e-5
    assert np.abs(data["actions"][:][rows, 12:18] - np.concatenate([steps[:, :3, 0], steps[:, :3, 1]], axis=1)).max() < 1e-5


def test_the_hands_are_the_robots_of_umi(takeset, session, tmp_path):
    steps = [{"resize-image": {"width": 224, "height": 224, "mode": "stretch"}}, {"actions": {"of": ["right", "left"]}}]
    file = pipeline(tmp_path, {"members": MEMBERS, "reference": "head"}, *steps)
    folder = session("three", "left", "right", "head", quirks=["skipped-frames"])
    takeset("run", folder, "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    data, meta = demo(tmp_path / "dataset", "three")
    complete = np.all([meta[f"streams/{key}/valid"][:] == 1 for key in ("left_pose", "right_pose", "left_camera_image", "right_camera_image")], axis=0)
    complete &= np.all([meta[f"streams/{side}_ultrawide_image/valid"][:] == 1 for side in MEMBERS], axis=0)
    names = {}
    for keys in "umi", "iphumi":
        options = ["--keys", "iphumi"] if keys == "iphumi" else []
        takeset("export", tmp_path / "dataset", "--to", "zarr", "-o", tmp_path / keys, "--layout", "umi", *options, check=0)
        with zarr.ZipStore(tmp_path / keys / "dataset.zarr.zip", mode="r") as store:
            names[keys] = {key: array[:] for key, array in zarr.group(store)["data"].items()}
    assert {key for key in names["iphumi"] if key.startswith("camera")} == {
        f"camera_{side}_{camera}_rgb" for side in MEMBERS for camera in ("main", "ultrawide")}  # fmt: skip
    for number, side in enumerate(("right", "left")):
        poses = matrices(data[f"obs/{side}_pose"][:][complete])
        assert len(poses) > 20
        for found, prefix in (names["umi"], f"robot{number}"), (names["iphumi"], f"gripper_{side}"):
            assert np.abs(found[f"{prefix}_eef_pos"] - poses[:, :3, 3]).max() < 1e-5
            # UMI's cameras have OpenCV's axes.
            expected = Rotation.from_matrix(poses[:, :3, :3] @ np.diag([1, -1, -1]))
            assert (expected.inv() * Rotation.from_rotvec(found[f"{prefix}_eef_rot_axis_angle"])).magnitude().max() < 1e-5
        images = data[f"obs/{side}_camera_image"][:][complete]
        assert np.array_equal(names["umi"][f"camera{number}_rgb"], images) and np.array_equal(names["iphumi"][f"camera_{side}_main_rgb"], images)
    assert np.array_equal(names["umi"]["camera2_rgb"], data["obs/head_camera_image"][:][complete])


def test_python_knows_the_members_of_a_stream(joined):
    _, output, _ = joined
    episode = takeset_package.open(output)["three"]
    _, meta = demo(output, "three")
    for side in MEMBERS:
        assert episode[f"{side}_pose"].attrs["member"] == side
        assert np.array_equal(episode.intrinsics(f"{side}_camera_image"), meta[f"{side}_intrinsics"][:], equal_nan=True)
        assert np.array_equal(episode.intrinsics(f"{side}_camera_depth"), meta[f"{side}_camera_depth_intrinsics"][:], equal_nan=True)
    assert set(episode.cameras) == {f"{side}_{camera}" for side in MEMBERS for camera in ("camera", "ultrawide")}


def test_a_group_keeps_its_id_when_its_folder_changes(takeset, session, tmp_path):
    """The folder that holds all members becomes another one when a member arrives, or when all are moved."""
    takes, output, late = tmp_path / "takes", tmp_path / "dataset", tmp_path / "late"
    raw_export(session("two", "left", "head", seed=5), takes, "demo")
    late.mkdir()
    (takes / "demo_head").rename(late / "demo_head")
    members = {"left": "*_left", "head": "*_head"}
    run = ["run", takes, "-o", output, "--pipeline", pipeline(tmp_path, {"members": members, "incomplete": "keep"})]

    def found():
        return [(entry["id"], entry["outcome"], len(entry["inputs"])) for entry in manifest(output)["record"]["takes"]]

    takeset(*run, check=0)
    assert found() == [("demo", "written", 4)]
    (late / "demo_head").rename(takes / "demo_head")
    takeset(*run, check=0)
    assert found() == [("demo", "written", 8)]
    (takes / "monday").mkdir()
    for name in "demo_left", "demo_head":
        (takes / name).rename(takes / "monday" / name)
    assert "1 unchanged" in takeset(*run, check=0).stdout and found() == [("demo", "written", 8)]
    # What is gone does not take the others with it, until somebody says so.
    (takes / "monday/demo_head").rename(late / "demo_head")
    before = shards(output)
    kept = takeset(*run)
    assert kept.returncode == 3 and "its group no longer has a take of head" in kept.stderr
    assert found() == [("demo", "written", 8)] and shards(output) == before
    takeset(*run, "--prune", check=0)
    assert found() == [("demo", "written", 4)]


def test_the_same_groups_have_the_same_ids_in_every_run(takeset, session, tmp_path):
    folder = session("two", "left", "head", seed=5)
    for day in "abcdef":
        shutil.copytree(folder, tmp_path / "takes" / day / "pick")
    file = pipeline(tmp_path, {"members": {"left": "*-left", "head": "*-head"}})
    found = []
    for number in range(3):
        takeset("run", tmp_path / "takes", "-o", tmp_path / f"{number}", "--pipeline", file, check=0)
        found.append({name: one["location"] for name, one in manifest(tmp_path / f"{number}")["run"]["takes"].items()})
    assert found[0] == found[1] == found[2] and set(found[0]) == {"pick", *(f"pick-{number}" for number in range(2, 7))}


def test_labels_are_those_of_the_group(takeset, session, tmp_path):
    folder = shutil.copytree(session("two", "left", "head", seed=5), tmp_path / "takes/two")
    for side, task, voice in ("left", "fold", True), ("head", "pour", False):
        document = json.loads((folder / f"{side}.json").read_text())
        document |= {"taskNames": [task], "taskStartTimestamps": [document["rgbTimes"][12]], "taskEndTimestamps": [document["rgbTimes"][24]], "isVoiceHost": voice}
        (folder / f"{side}.json").write_text(json.dumps(document))
    file = pipeline(tmp_path, {"members": {"head": "*-head", "left": "*-left"}})
    takeset("run", folder, "-o", tmp_path / "said", "--pipeline", file, check=0)
    labels = takeset_package.open(tmp_path / "said")["two"].labels
    truth = json.loads((folder / "truth.json").read_text())
    # The left phone began 63 ms after the head's: its twelfth frame is at 0.2 s of its own.
    begin = (truth["left"]["start_unix_ns"] - truth["head"]["start_unix_ns"] + truth["left"]["frame_time_ns"][12]) / 1e9
    assert labels.task == "fold" and labels.segments[0].start == pytest.approx(begin, abs=0.0015)
    (folder / "labels.json").write_text(json.dumps({"task": "stack"}))
    takeset("run", folder, "-o", tmp_path / "beside", "--pipeline", file, check=0)
    assert takeset_package.open(tmp_path / "beside")["two"].labels.task == "stack"


def test_exports_of_one_phone_refuse_and_others_name_members(takeset, session, tmp_path):
    file = pipeline(tmp_path, {"members": MEMBERS, "reference": "head"}, {"resize-image": {"width": 48, "height": 36}}, {"actions": {}})
    takeset("run", session("three", "left", "right", "head", quirks=["skipped-frames"]), "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    for form in "tum", "kitti", "colmap", "nerfstudio", "ply":
        refused = takeset("export", tmp_path / "dataset", "--to", form, "-o", tmp_path / form)
        assert refused.returncode == 65 and "is for takes of one phone, and three have several (head, left, right)" in refused.stderr
    takeset("export", tmp_path / "dataset", "--to", "aloha", "-o", tmp_path / "aloha", "--masked", "longest", check=0)
    with h5py.File(next((tmp_path / "aloha").glob("*.hdf5"))) as episode:
        assert episode["observations/qpos"].shape[1] == 14 and episode["action"].shape[1] == 18
        assert {"left_camera", "right_camera", "head_camera"} <= set(episode["observations/images"])


def test_takes_of_one_name_in_several_folders(takeset, session, tmp_path):
    folder = session("two", "left", "head", seed=5)
    for name in "day1/x-left", "day1/x-head", "day2/x-left":
        side = name.split("-")[1]
        (tmp_path / "takes" / name).mkdir(parents=True)
        for file in folder.glob(f"{side}*"):
            shutil.copy(file, tmp_path / "takes" / name / file.name.replace(side, f"x-{side}", 1))
    file = pipeline(tmp_path, {"by": "name", "members": {"head": "*-head", "left": "*-left"}})
    takeset("run", tmp_path / "takes", "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    found = [(entry["id"], entry["outcome"]) for entry in manifest(tmp_path / "dataset")["record"]["takes"]]
    assert found == [("x", "written"), ("x-2", "rejected")]


def test_takes_that_share_no_time_are_not_joined(takeset, session, tmp_path):
    folder = shutil.copytree(session("two", "left", "head", seed=5), tmp_path / "two")
    text = (folder / "left.json").read_text()
    (folder / "left.json").write_text(text.replace("2026-02-18T", "2026-02-17T"))
    assert text.count("2026-02-18T") > 100
    file = pipeline(tmp_path, {"members": {"head": "*-head", "left": "*-left"}})
    done = takeset("run", folder, "-o", tmp_path / "dataset", "--pipeline", file)
    assert done.returncode == 3 and "left ends 86398." in done.stderr
    assert "join-clock" in codes(manifest(tmp_path / "dataset")["record"]["takes"][0])


def test_the_evidence_of_every_member_is_checked(takeset, tmp_path):
    for side in "left", "right":
        takeset("simulate", "realitycam-bundle", "-o", tmp_path / f"takes/b-{side}", "--seconds", 1, "--size", "96x72", check=0)
    steps = [{"verify-hash-chain": {"require": "structure"}}, {"verify-depth": {}}]
    run = ["run", tmp_path / "takes", "--pipeline", pipeline(tmp_path, {"by": "name", "members": {"left": "*-left", "right": "*-right"}}, *steps)]
    takeset(*run, "-o", tmp_path / "sound", check=0)
    members = manifest(tmp_path / "sound")["record"]["takes"][0]["details"]["members"]
    assert {side: one["verification"]["chain"]["state"] for side, one in members.items()} == {"left": "sound", "right": "sound"}, members
    shutil.rmtree(tmp_path / "takes/b-right")
    takeset("simulate", "realitycam-bundle", "-o", tmp_path / "takes/b-right", "--seconds", 1, "--size", "96x72", "--fault", "chain-final", check=0)
    rejected = takeset(*run, "-o", tmp_path / "broken", check=0)
    assert "verify-hash-chain: right: the hash chain is broken" in rejected.stderr


def test_damaged_samples_are_those_of_their_phone(takeset, tmp_path):
    for side, frame in ("left", 2), ("right", 3):
        folder = tmp_path / f"takes/s-{side}"
        takeset("simulate", "stack-session", "-o", folder, "--seconds", 1, check=0)
        sorted((folder / "rgb").iterdir())[frame].write_bytes(b"\xff\xd8 no image")
    file = pipeline(tmp_path, {"by": "name", "members": {"left": "*-left", "right": "*-right"}})
    takeset("run", tmp_path / "takes", "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    entry = manifest(tmp_path / "dataset")["record"]["takes"][0]
    files = [found["file"] for found in entry["findings"] if found["code"] == "image-undecodable"]
    assert len(files) == 2 and files[0].startswith("left/") and files[1].startswith("right/")


def test_lerobot_names_features_after_members(takeset, session, tmp_path):
    steps = [{"resize-image": {"width": 48, "height": 36}}, {"actions": {"of": ["right", "left"]}}, {"select": {"streams": [
        f"{side}_{stream}" for side in MEMBERS for stream in ("camera_image", "ultrawide_image", "pose")]}}]  # fmt: skip
    file = pipeline(tmp_path, {"members": MEMBERS, "reference": "head"}, *steps)
    takeset("run", session("three", "left", "right", "head", quirks=["skipped-frames"]), "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    export(tmp_path / "dataset", tmp_path / "lerobot", "--task", "fold", "--fps", 60)
    features = json.loads((tmp_path / "lerobot/meta/info.json").read_text())["features"]
    images = {name.removeprefix("observation.images.") for name in features if name.startswith("observation.images.")}
    assert images == {*MEMBERS, *(f"{side}_ultrawide" for side in MEMBERS)}
    state, action = features["observation.state"]["names"], features["action"]["names"]
    assert len(state) == 14 and state[0].startswith("right_pose") and state[7].startswith("left_pose")
    assert len(action) == 18 and action[0].startswith("right_relative_position") and action[9].startswith("left_relative_position")


def test_another_recording_of_the_same_name_is_another_take(takeset, session, tmp_path):
    """A dataset that grows day by day: the episodes of other days stay, and the same ones are known again."""
    for day, seed in ("day1", 5), ("day2", 6):
        shutil.copytree(session(f"pick{seed}", "left", "head", seed=seed), tmp_path / day / "pick")
    run = ["-o", tmp_path / "dataset", "--pipeline", pipeline(tmp_path, {"members": {"left": "*-left", "head": "*-head"}})]
    takeset("run", tmp_path / "day1", *run, check=0)
    first = shards(tmp_path / "dataset")
    takeset("run", tmp_path / "day2", *run, check=0)
    both = shards(tmp_path / "dataset")
    assert set(both) == {"pick.h5", "pick-2.h5"} and both["pick.h5"] == first["pick.h5"] != both["pick-2.h5"]
    for days in (["day1", "day2"], ["day2"], ["day2", "day1"]):
        takeset("run", *(tmp_path / day for day in days), *run, check=0)
        assert shards(tmp_path / "dataset") == both
    # A folder that is moved as a whole keeps its id, and no other takes it.
    (tmp_path / "day2").rename(tmp_path / "later")
    takeset("run", tmp_path / "later", *run, check=0)
    assert shards(tmp_path / "dataset") == both


def test_a_name_that_ends_in_a_number_is_a_name(takeset, session, tmp_path):
    run = ["run", tmp_path / "takes", "-o", tmp_path / "dataset", "--pipeline", pipeline(tmp_path, {"members": {"left": "*_left", "head": "*_head"}})]
    raw_export(session("pick5", "left", "head", seed=5), tmp_path / "takes", "pick-2")
    takeset(*run, check=0)
    first = shards(tmp_path / "dataset")
    raw_export(session("pick6", "left", "head", seed=6), tmp_path / "takes", "pick")
    takeset(*run, check=0)
    both = shards(tmp_path / "dataset")
    assert set(both) == {"pick.h5", "pick-2.h5"} and both["pick-2.h5"] == first["pick-2.h5"]


def test_takes_alone_and_names_that_cannot_be(takeset, session, tmp_path):
    shutil.copytree(session("two", "left", "head", seed=5), tmp_path / "takes" / "a\nb")
    shutil.copytree(session("two", "left", "head", seed=5), tmp_path / "takes" / "sound")
    for file in (tmp_path / "takes/sound").glob("head*"):
        file.unlink()
    file = pipeline(tmp_path, {"members": {"left": "*-left", "head": "*-head"}, "incomplete": "alone"}, {"actions": {"of": ["left"]}})
    done = takeset("run", tmp_path / "takes", "-o", tmp_path / "dataset", "--pipeline", file)
    entries = {entry["id"]: entry for entry in manifest(tmp_path / "dataset")["record"]["takes"]}
    assert done.returncode == 3 and entries["sound-left"]["outcome"] == "written" and "join-alone" in codes(entries["sound-left"])
    assert len(entries) > 1 and all(entry["outcome"] == "failed" and "bad-name" in codes(entry) for name, entry in entries.items() if name != "sound-left")


def test_labels_of_others_are_not_those_of_the_group(takeset, tmp_path):
    """Those in the archive of a member that is not the reference, whose times are its own, and those in a folder that is no input."""
    for side in "left", "right":
        takeset("simulate", "stack-session", "-o", tmp_path / f"in-{side}/c-{side}", "--seconds", 0.5, check=0)
    (tmp_path / "in-right/c-right/labels.json").write_text(json.dumps({"task": "of the right phone"}))
    shutil.make_archive(tmp_path / "in-right/c-right", "tar", tmp_path / "in-right/c-right")
    shutil.rmtree(tmp_path / "in-right/c-right")
    (tmp_path / "labels.json").write_text(json.dumps({"task": "of nobody"}))
    file = pipeline(tmp_path, {"by": "name", "members": {"left": "*-left", "right": "*-right"}})
    run = ["run", tmp_path / "in-left", tmp_path / "in-right", "--pipeline", file]
    takeset(*run, "-o", tmp_path / "without", check=0)
    assert takeset_package.open(tmp_path / "without")["c"].labels.task is None
    (tmp_path / "labels.csv").write_text("take,task\nc,fold\n")
    takeset(*run, "-o", tmp_path / "with", "--labels", tmp_path / "labels.csv", check=0)
    assert takeset_package.open(tmp_path / "with")["c"].labels.task == "fold"
