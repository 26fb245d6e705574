"""Two hands from end to end: the openings of their grippers, phones whose clocks disagree, takes that arrive one by one, and what loaders say."""

import io
import json
import os
import re
import shutil
import sys

import h5py
import numpy as np
import pytest
import zarr
from clusters import plan
from command import BINARY, ROOT
from mcap.reader import make_reader
from mcap_protobuf.decoder import DecoderFactory
from outputs import codes, manifest
from PIL import Image
from report_pages import report
from run_outputs import outputs
from scipy.spatial.transform import Rotation
from system import stopped

PYTHON = {"env": {**os.environ, "TAKESET_PYTHON": sys.executable}}


def pipeline(folder, join, *steps):
    path = folder / "join.yaml"
    path.write_text(json.dumps({"version": 1, "join": join, "transforms": ["align", *steps]}))
    return path


def simulated(takeset, folder, phones, *options, seconds=1, size="96x72"):
    takeset("simulate", "iphumi", "-o", folder, "--seconds", seconds, "--size", size, "--phones", phones, *options, check=0)
    return folder


def entries(output):
    return {entry["id"]: entry for entry in manifest(output)["record"]["takes"]}


@pytest.fixture(scope="module")
def pick(takeset, tmp_path_factory):
    """A demonstration of two hands, and the dataset that the recipe for it makes, in one folder."""
    root = tmp_path_factory.mktemp("bimanual")
    simulated(takeset, root / "takes/pick", "left,right", "--skew", "left=0.08", seconds=3, size="640x480")
    takeset("init", "--for", "umi-bimanual", "-o", "umi.yaml", cwd=root, check=0)
    takeset("run", "takes", "-o", "dataset", "--pipeline", "umi.yaml", cwd=root, check=0, **PYTHON)
    return root


def test_the_openings_of_grippers_are_right_within_a_millimeter_and_masked_where_covered(pick):
    truth = json.loads((pick / "takes/pick/truth.json").read_text())
    with h5py.File(pick / "dataset/dataset.h5") as file:
        data, meta = file["data/demo_000000"], file["meta/demo_000000"]
        assert data["actions"].attrs["parts"].count("gripper:1") == 2 and data["action_chunk"].shape[1:] == (16, 20)
        for side in "left", "right":
            shown = meta[f"streams/{side}_camera_image/source_index"][:]
            width = np.array([np.nan if value is None else value for value in truth[side]["gripper_width"]])[shown]
            found = data[f"obs/{side}_gripper"][:, 0]
            assert np.array_equal(np.isnan(found), np.isnan(width)) and 40 < np.isfinite(width).sum() < len(width) - 5
            assert np.nanmax(np.abs(found - width)) < 0.001 and np.ptp(width[np.isfinite(width)]) > 0.04
            assert data[f"obs/{side}_gripper"].attrs["member"] == side and data[f"obs/{side}_gripper"].attrs["unit"] == "m"
            assert np.array_equal(data[f"action_dict/{side}_gripper"][:-1][data["actions_valid"][:-1] == 1], found[1:, None][data["actions_valid"][:-1] == 1])


def test_the_recipe_is_that_of_the_examples_and_its_export_is_umis(takeset, pick):
    assert (pick / "umi.yaml").read_text() == (ROOT / "examples/recipes/umi-bimanual.yaml").read_text()
    assert (pick / "gripper_width.py").read_text() == (ROOT / "examples/steps/gripper_width.py").read_text()
    takeset("verify", "dataset", cwd=pick, check=0)
    takeset("export", "dataset", "--to", "zarr", "--layout", "umi", "--gripper", "gripper", "-o", "buffer", cwd=pick, check=0)
    with zarr.ZipStore(pick / "buffer/dataset.zarr.zip", mode="r") as store:
        group = zarr.group(store)["data"]
        assert {f"robot{number}_gripper_width" for number in (0, 1)} <= set(group)
        assert all(0.02 < array[:].min() < array[:].max() < 0.09 for key, array in group.items() if key.endswith("gripper_width"))


def test_what_is_commented_out_in_the_recipe_is_accepted(takeset, tmp_path):
    folder = simulated(takeset, tmp_path / "pick", "left,right,head")
    takeset("init", "--for", "umi-bimanual", "-o", tmp_path / "p.yaml", check=0)
    text = (tmp_path / "p.yaml").read_text().replace('  members: {left: "*-left", right: "*-right"}\n', "").replace("  - pose-frame: {axes: arkit}\n", "")
    text = text.replace("  # members:", "  members:").replace("  # - pose-frame", "  - pose-frame").replace("{streams: [", "{streams: [head_camera_image, ")
    (tmp_path / "p.yaml").write_text(text)
    take, = json.loads(takeset("plan", folder, "--pipeline", tmp_path / "p.yaml", "--json", check=0, **PYTHON).stdout)["takes"]
    assert take["frames"] > 0 and "head_camera_image" in json.dumps(take)


def test_try_takes_the_step_of_the_phone(takeset, pick, tmp_path):
    for side in "left", "right":
        file = pick / f"takes/pick/{side}.json"
        done = takeset("try", pick / "gripper_width.py", file, "--pipeline", pick / "umi.yaml", "--rows", "0:10", check=0, **PYTHON)
        assert "10 of 10 rows valid" in done.stdout


def test_a_take_alone_does_not_lose_a_step_of_its_phone_in_silence(takeset, tmp_path):
    """What blackens images would be left out."""
    folder = simulated(takeset, tmp_path / "pick", "left", seconds=0.3)
    (tmp_path / "black.py").write_text(
        "from takeset import steps\n"
        "@steps.rows(reads=['camera_image'], writes=steps.Image('camera_image'))\n"
        "def black(block): return block.camera_image * 0\n"
    )
    join = {"members": {"left": "*-left", "right": "*-right"}, "incomplete": "alone"}
    file = pipeline(tmp_path, join, *[{"python": {"file": "black.py", "member": side}} for side in join["members"]])
    takeset("run", folder, "-o", tmp_path / "out", "--pipeline", file, check=3, **PYTHON)
    entry = entries(tmp_path / "out")["pick-left"]
    assert entry["outcome"] == "failed" and "black.py is for left, and the take is of one phone by itself" in entry["reason"]
    # The group without one phone has nothing of it to be blackened.
    file = pipeline(tmp_path, {**join, "incomplete": "keep"}, *[{"python": {"file": "black.py", "member": side}} for side in join["members"]])
    takeset("run", folder, "-o", tmp_path / "kept", "--pipeline", file, check=0, **PYTHON)
    with h5py.File(tmp_path / "kept/dataset.h5") as dataset:
        assert dataset["data/demo_000000/obs/left_camera_image"][:].max() == 0


def test_a_bad_image_of_a_phone_that_begins_late_is_one_of_its_images(takeset, tmp_path):
    for side in "left", "right":
        takeset.simulate(tmp_path / f"takes/p-{side}", "--seconds", 1.5, "--size", "64x48")
    (tmp_path / "takes/p-left/rgb/000010.jpg").write_bytes(b"\xff\xd8garbage")
    join = {"by": "name", "members": {"left": "*-left", "right": "*-right"}, "reference": "right", "offset": {"left": 0.4}}
    takeset("run", tmp_path / "takes", "-o", tmp_path / "out", "--pipeline", pipeline(tmp_path, join), check=0)
    entry = entries(tmp_path / "out")["p"]
    assert entry["outcome"] == "written" and "image-undecodable" in codes(entry)


def test_init_leaves_a_step_alone_that_somebody_has_changed(takeset, tmp_path):
    (tmp_path / "gripper_width.py").write_text("mine")
    done = takeset("init", "--for", "umi-bimanual", "-o", tmp_path / "p.yaml", check=64)
    assert "gripper_width.py already exists" in done.stderr and not (tmp_path / "p.yaml").exists()
    assert (tmp_path / "gripper_width.py").read_text() == "mine"
    takeset("init", "--for", "umi-bimanual", "-o", tmp_path / "p.yaml", "--replace", check=0)
    assert "ArUco" in (tmp_path / "gripper_width.py").read_text()
    assert "another one" in takeset("init", "--for", "umi-bimanual", "-o", tmp_path / "gripper_width.py", "--replace", check=64).stderr
    assert "ArUco" in (tmp_path / "gripper_width.py").read_text()
    assert "version: 1" in takeset("init", "--for", "umi-bimanual", check=0).stdout


# Steps in Python


def test_a_step_reads_and_writes_the_names_of_its_member(takeset, tmp_path):
    folder = simulated(takeset, tmp_path / "pick", "left,right")
    (tmp_path / "mean.py").write_text(
        "from takeset import steps\n"
        "@steps.rows(reads=['camera_image', 'pose'], writes=steps.Vector('light', ['mean', 'x']))\n"
        "def light(block):\n"
        "    import numpy as np\n"
        "    return np.stack([block.camera_image.mean(axis=(1, 2, 3)), block.pose[:, 0]], axis=1)\n"    )
    (tmp_path / "dark.py").write_text(
        "from takeset import steps\n"
        "@steps.rows(reads=['camera_image'], writes=steps.Image('camera_image'))\n"
        "def dark(block): return block.camera_image // 2\n"
    )
    (tmp_path / "first.py").write_text(
        "from takeset import steps\n"
        "@steps.keep(reads=['pose'], reason='late')\n"
        "def first(block): return block.time_ns < 500_000_000\n"
    )
    plain = ["run", folder, "-o", tmp_path / "plain", "--pipeline", pipeline(tmp_path, {"members": {"left": "*-left", "right": "*-right"}})]
    takeset(*plain, check=0)
    steps = [{"python": {"file": "mean.py", "member": "right"}}, {"python": {"file": "dark.py", "member": "left"}},
             {"python": {"file": "first.py", "member": "right"}}]  # fmt: skip
    file = pipeline(tmp_path, {"members": {"left": "*-left", "right": "*-right"}}, *steps)
    takeset("run", folder, "-o", tmp_path / "out", "--pipeline", file, check=0, **PYTHON)
    with h5py.File(tmp_path / "plain/dataset.h5") as before, h5py.File(tmp_path / "out/dataset.h5") as after:
        old, new = before["data/demo_000000/obs"], after["data/demo_000000/obs"]
        rows = len(new["left_pose"])
        assert 25 < rows < 35 and "left_light" not in new and new["right_light"].attrs["member"] == "right"
        assert np.allclose(new["right_light"][:, 0], old["right_camera_image"][:rows].mean(axis=(1, 2, 3)), atol=1e-3)
        assert np.allclose(new["right_light"][:, 1], old["right_pose"][:rows, 0])
        assert np.array_equal(new["left_camera_image"][:], old["left_camera_image"][:rows] // 2)
        assert new["left_camera_image"].attrs["member"] == "left" and np.array_equal(new["right_camera_image"][:], old["right_camera_image"][:rows])
        assert "left_intrinsics" in after["meta/demo_000000"]
    takeset("verify", tmp_path / "out", "--inputs", check=0)
    assert takeset("trace", tmp_path / "out", "--episode", "pick", "--row", "3", "--stream", "right_light", check=0, **PYTHON).stdout
    done = takeset("run", folder, "-o", tmp_path / "o", "--pipeline", pipeline(tmp_path, {"members": {"left": "*-left"}}, steps[0]), check=64, **PYTHON)
    assert "python.member" in done.stderr and "there is no member right" in done.stderr


# Clocks


def shifted(folder, side, seconds):
    """All times of a phone's recording later by some seconds, as if its clock had been set wrong."""
    file = folder / f"{side}.json"
    values = json.loads(file.read_text())
    for name, value in values.items():
        if name.endswith("Times"):
            values[name] = [later(time, seconds) for time in value]
    values["recordingStartTime"] = later(values["recordingStartTime"], seconds)
    file.write_text(json.dumps(values))


def later(text, seconds):
    return text and str(np.datetime64(text.rstrip("Z"), "ms") + np.timedelta64(round(seconds * 1000), "ms")) + "Z"


@pytest.mark.parametrize("wrong", [0.12, -0.3])
def test_phones_that_turn_together_and_not_at_one_time_are_named_with_the_figure(takeset, tmp_path, wrong):
    """Two phones on one rig: the second is a copy of the first whose clock is wrong."""
    folder = simulated(takeset, tmp_path / "rig", "left", seconds=4)
    for file in [*folder.glob("left*")]:
        shutil.copy(file, folder / file.name.replace("left", "head"))
    values = json.loads((folder / "head.json").read_text())
    (folder / "head.json").write_text(json.dumps({**values, "side": "head"}))
    members = {"left": "*-left", "head": "*-head"}
    takeset("run", folder, "-o", tmp_path / "right", "--pipeline", pipeline(tmp_path, {"members": members, "reference": "left"}), check=0)
    assert "join-clock" not in codes(entries(tmp_path / "right")["rig"])
    shifted(folder, "head", wrong)
    takeset("run", folder, "-o", tmp_path / "wrong", "--pipeline", pipeline(tmp_path, {"members": members, "reference": "left"}), check=0)
    finding, = [found for found in entries(tmp_path / "wrong")["rig"]["findings"] if found["code"] == "join-clock"]
    assert finding["severity"] == "warning" and finding["field"] == "head"
    assert f"{abs(wrong) * 1000:.0f} ms {'later' if wrong > 0 else 'earlier'}" in finding["message"]
    # The offset that it names puts them at one time.
    offset = float(finding["message"].split("offset: {head: ")[1].split("}")[0])
    assert abs(offset + wrong) < 0.003
    # Offsets of both are added to the times of both.
    join = {"members": members, "reference": "left", "offset": {"head": 0.5, "left": 0.5}}
    takeset("run", folder, "-o", tmp_path / "both", "--pipeline", pipeline(tmp_path, join), check=0)
    finding, = [found for found in entries(tmp_path / "both")["rig"]["findings"] if found["code"] == "join-clock"]
    assert abs(float(finding["message"].split("offset: {head: ")[1].split("}")[0]) - offset - 0.5) < 0.003
    join = {"members": members, "reference": "left", "offset": {"head": offset}}
    takeset("run", folder, "-o", tmp_path / "mended", "--pipeline", pipeline(tmp_path, join), check=0)
    assert "join-clock" not in codes(entries(tmp_path / "mended")["rig"])


def test_hands_that_move_by_themselves_say_nothing_of_their_clocks(takeset, tmp_path):
    for seed in 1, 5, 9:
        simulated(takeset, tmp_path / f"takes/pick{seed}", "left,right", "--skew", "left=0.2", "--seed", str(seed), seconds=4)
    file = pipeline(tmp_path, {"members": {"left": "*-left", "right": "*-right"}})
    takeset("run", tmp_path / "takes", "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    found = entries(tmp_path / "dataset")
    assert len(found) == 3 and not any("join-clock" in codes(entry) for entry in found.values())


# Programs that read what is joined


def test_topics_of_mcap_begin_with_the_member_and_transforms_are_in_the_common_world(takeset, pick, tmp_path):
    folder = simulated(takeset, tmp_path / "pick", "left,right,head", "--skew", "left=0.08")
    members = {"left": "*-left", "right": "*-right", "head": "*-head"}
    file = pipeline(tmp_path, {"members": members, "reference": "head"}, {"pose-frame": {"member": "left", "origin": "first-frame"}}, {"actions": {}})
    takeset("run", folder, "-o", tmp_path / "dataset", "--pipeline", file, check=0)
    takeset("export", tmp_path / "dataset", "--to", "mcap", "-o", tmp_path / "log", "--image", "png", check=0)
    messages = {}
    with open(tmp_path / "log/pick.mcap", "rb") as log:
        reader = make_reader(log, validate_crcs=True, decoder_factories=[DecoderFactory()])
        topics = {channel.topic for channel in reader.get_summary().channels.values()}
        for _, channel, message, decoded in reader.iter_decoded_messages(topics=["/tf", "/left/camera/image"]):
            messages.setdefault(channel.topic, []).append((message.sequence, decoded))
    for side in members:
        assert {f"/{side}/camera/{what}" for what in ("image", "info", "depth", "depth_info", "pose")} <= topics
    assert {"/tf", "/actions", "/head/ultrawide/image"} <= topics and not any(topic.startswith("/left_") for topic in topics)
    transforms = {}
    for row, transform in messages["/tf"]:
        transforms.setdefault((transform.parent_frame_id, transform.child_frame_id), {})[row] = transform
    assert set(transforms) == {("left", "left/camera"), ("session", "right/camera"), ("session", "head/camera")}
    with h5py.File(tmp_path / "dataset/dataset.h5") as dataset:
        data = dataset["data/demo_000000"]
        for (_, camera), rows in transforms.items():
            side = camera.split("/")[0]
            poses = data[f"obs/{side}_pose"][:]
            assert sorted(rows) == np.flatnonzero(np.isfinite(poses[:, 0])).tolist() and len(rows) > 50
            for row, transform in rows.items():
                place, turn = transform.translation, transform.rotation
                assert np.allclose([place.x, place.y, place.z], poses[row, :3], atol=1e-6)
                # Optical axes: y down, z forward.
                expected = Rotation.from_quat(poses[row, 3:]) * Rotation.from_euler("x", 180, degrees=True)
                assert (expected.inv() * Rotation.from_quat([turn.x, turn.y, turn.z, turn.w])).magnitude() < 1e-5
        for row, frame in messages["/left/camera/image"]:
            assert frame.frame_id == "left/camera" and np.array_equal(Image.open(io.BytesIO(frame.data)), data["obs/left_camera_image"][row])


def test_topics_of_streams_that_got_other_names(takeset, tmp_path):
    """The poses are those of the main camera, whatever it is called and whatever a step has made of its images."""
    folder = simulated(takeset, tmp_path / "pick", "left,right", seconds=0.3)
    (tmp_path / "a.py").write_text(
        "from takeset import steps\n"
        "@steps.rows(reads=['camera_image'], writes=steps.Image('blurred_image'))\n"
        "def a(block): return block.camera_image\n"
    )
    names = {"left_camera_image": "wrist", "left_ultrawide_image": "wide", "right_ultrawide_image": "wide_image"}
    file = pipeline(tmp_path, {"members": {"left": "*-left", "right": "*-right"}}, {"python": {"file": "a.py", "member": "right"}},
                    {"rename": {"streams": names}})  # fmt: skip
    takeset("run", folder, "-o", tmp_path / "dataset", "--pipeline", file, check=0, **PYTHON)
    takeset("export", tmp_path / "dataset", "--to", "mcap", "-o", tmp_path / "log", check=0)
    with open(tmp_path / "log/pick.mcap", "rb") as log:
        summary = make_reader(log, validate_crcs=True).get_summary()
    counts = {channel.topic: summary.statistics.channel_message_counts.get(number, 0) for number, channel in summary.channels.items()}
    assert {"/left/wrist/image", "/left/wide/image", "/right/wide/image", "/right/blurred/image", "/left/wrist/pose", "/right/camera/pose"} <= set(counts)
    assert not any("//" in topic for topic in counts) and max(count for topic, count in counts.items() if topic != "/tf") <= 18


def test_loaders_know_the_phones(takeset, pick, tmp_path):
    folder = simulated(takeset, tmp_path / "takes/pick", "left,right,head", "--skew", "left=0.2")
    members = {"left": "*-left", "right": "*-right", "head": "*-head"}
    steps = {"resize-image": {"width": 224, "height": 224}}, {"actions": {}}
    takeset("run", folder, "-o", tmp_path / "dataset", "--pipeline", pipeline(tmp_path, {"members": members, "reference": "head"}, *steps), check=0)

    def diagnoses(dataset, loader):
        found = json.loads(takeset("verify", dataset, "--for", loader, "--json").stdout)
        return {(one["code"], one["message"]) for one in found["diagnoses"]}

    found = diagnoses(tmp_path / "dataset", "diffusion-policy")
    assert not any(code == "image-undecodable" for code, _ in found)
    assert any(code == "rows-masked" and "left_camera_image is missing" in text for code, text in found)
    assert any(code == "gripper-missing" and "of each hand" in text for code, text in found)
    assert not any(code == "gripper-missing" for code, _ in diagnoses(pick / "dataset", "diffusion-policy"))
    assert any(code == "several-phones" for code, _ in diagnoses(tmp_path / "dataset", "nerfstudio"))


def test_the_report_shows_the_phones_at_the_same_moments(takeset, pick):
    page, _ = report(takeset, pick / "dataset", pick / "report.html")
    details = page.details("pick")
    strips = {strip["key"]: strip["times"] for strip in details["strips"]}
    assert list(strips) == ["left_camera_image", "right_camera_image"] and len({tuple(times) for times in strips.values()}) == 1
    assert details["trajectory_of"] == "left_pose" and "Trajectory of right_pose" in {curve["name"] for curve in details["curves"]}


# Takes that have only the time in common


def test_takes_are_joined_by_the_time_at_which_they_were_recorded(takeset, tmp_path):
    """Phones that name their takes as they like: the time alone says which belong together."""
    takes = tmp_path / "takes"
    names = {"p1-left": "left_0007", "p1-right": "right_0001", "p2-left": "left_0001", "p2-right": "right_0009"}
    for number in 1, 2:
        takeset("simulate", "stack-session", "-o", tmp_path / f"p{number}", "--phones", "left,right", "--skew", "left=0.25", "--seconds", "1.5", "--size", "64x48",
                "--seed", str(10 * number), "--start-time", f"2026-03-01T13:0{number}:00Z", check=0)  # fmt: skip
    for old, new in names.items():
        target = takes / new.split("_")[0] / new
        target.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / old.split("-")[0] / old).rename(target)
    takeset("simulate", "stack-session", "-o", takes / "left/left_0002", "--seconds", "0.5", "--size", "64x48", "--start-time", "2026-03-02T13:01:00Z", check=0)
    damaged = takeset.simulate(takes / "right/right_0002", "--seconds", "0.5", "--size", "64x48", "--start-time", "2026-03-02T13:01:00Z")
    (damaged / "metadata.json").write_text("{")
    file = pipeline(tmp_path, {"by": "time", "members": {"left": "left_*", "right": "right_*"}, "reference": "right"})
    outcomes = {}
    for isolation in "never", "always":
        output = tmp_path / isolation
        done = takeset("run", takes, "-o", output, "--pipeline", file, "--isolate", isolation)
        assert done.returncode == 3, done.stderr
        outcomes[isolation] = {id: entry["outcome"] for id, entry in entries(output).items()}
    assert outcomes["never"] == outcomes["always"] == {
        "right_0001": "written", "right_0009": "written", "left_0002": "rejected", "right_0002": "failed"}  # fmt: skip
    assert outputs(tmp_path / "never") == outputs(tmp_path / "always")
    found = entries(tmp_path / "never")
    places = {id: {one["path"].split("/")[0] for one in found[id]["inputs"]} for id in ("right_0001", "right_0009")}
    assert places == dict.fromkeys(places, {"left", "right"})
    assert [found[id]["steps"][0]["options"]["members"]["left"]["id"] for id in ("right_0001", "right_0009")] == ["left_0007", "left_0001"]
    assert "join-alone" in codes(found["right_0002"]) and "there is no take of right" in found["left_0002"]["reason"]
    again = takeset("run", takes, "-o", tmp_path / "never", "--pipeline", file, check=3)
    assert re.findall(r"^\[\d/4\] (\w+): ", again.stderr, re.M) == ["right_0002"]
    planned = {take["id"] for take in json.loads(takeset("plan", takes, "--pipeline", file, "--json").stdout)["takes"]}
    assert planned == set(found)


def test_a_take_at_the_time_of_two_others_is_joined_with_neither(takeset, tmp_path):
    for name, seconds, time in ("left_1", 6, "13:00:00"), ("right_1", 1.5, "13:00:00"), ("right_2", 1.5, "13:00:04"):
        takeset("simulate", "stack-session", "-o", tmp_path / "takes" / name, "--seconds", str(seconds), "--size", "64x48", "--rate", "30", "--start-time",
                f"2026-03-01T{time}Z", check=0)  # fmt: skip
    file = pipeline(tmp_path, {"by": "time", "members": {"left": "left_*", "right": "right_*"}})
    takeset("run", tmp_path / "takes", "-o", tmp_path / "out", "--pipeline", file, check=3)
    found = entries(tmp_path / "out")
    assert {entry["outcome"] for entry in found.values()} == {"failed"} and set(found) == {"left_1", "right_1", "right_2"}
    assert all("join-ambiguous" in codes(entry) and "right has several takes" in entry["reason"] for entry in found.values())


def written(output):
    return {id: entry["inputs"][0]["sha256"] for id, entry in entries(output).items() if entry["outcome"] == "written"}


def test_a_take_too_many_does_not_cost_an_episode_that_was_written(takeset, tmp_path):
    """A copy of one phone's take makes the group ambiguous; its episode stays until somebody says so, and is the same when the copy is gone."""
    takeset("simulate", "stack-session", "-o", tmp_path / "p", "--phones", "left,right", "--seconds", "1.5", "--size", "64x48",
            "--start-time", "2026-03-01T13:00:00Z", check=0)  # fmt: skip
    takes, output = tmp_path / "takes", tmp_path / "out"
    takes.mkdir()
    for side in "left", "right":
        (tmp_path / f"p/p-{side}").rename(takes / f"{side}_1")
    run = ["run", takes, "-o", output, "--pipeline", pipeline(tmp_path, {"by": "time", "members": {"left": "left_*", "right": "right_*"}})]
    takeset(*run, check=0)
    before = (output / "episodes/left_1.h5").read_bytes()
    shutil.copytree(takes / "right_1", takes / "right_2")
    takeset(*run, check=3)
    found = entries(output)
    assert (output / "episodes/left_1.h5").read_bytes() == before and found["left_1"]["outcome"] == "written"
    failed = [entry for entry in found.values() if entry["outcome"] == "failed"]
    assert len(failed) == 3 and all("right_1 (right), right_2 (right)" in entry["reason"] and str(tmp_path) not in entry["reason"] for entry in failed)
    shutil.rmtree(takes / "right_2")
    takeset(*run, check=0)
    assert (output / "episodes/left_1.h5").read_bytes() == before
    assert {id for id, entry in entries(output).items() if entry["outcome"] == "failed"} <= {"right_2"}


def test_groups_of_one_name_keep_their_ids_when_another_comes_or_one_goes(takeset, tmp_path):
    takes, output = tmp_path / "takes", tmp_path / "out"
    for name, seed in ("b", 11), ("d", 31):
        takeset("simulate", "stack-session", "-o", tmp_path / name, "--phones", "left,right", "--seconds", "1.5", "--size", "64x48", "--seed", str(seed),
                "--start-time", "2026-03-01T13:00:00Z", check=0)  # fmt: skip

    def arrives(name):
        for side in "left", "right":
            target = takes / f"{side}phone" / name / f"clip-{side}"
            target.parent.mkdir(parents=True)
            shutil.copytree(tmp_path / name / f"{name}-{side}", target)

    run = ["run", takes, "-o", output, "--pipeline", pipeline(tmp_path, {"by": "name", "members": {"left": "*-left", "right": "*-right"}})]
    arrives("b")
    takeset(*run)
    first = written(output)
    assert set(first) == {"clip"}
    for side in "left", "right":
        shutil.rmtree(takes / f"{side}phone/b")
    arrives("d")
    takeset(*run)
    # The episode whose takes are gone is not that of another day.
    assert written(output)["clip"] == first["clip"] and set(written(output)) == {"clip", "clip-2"}


# The same bytes


@pytest.mark.slow
def test_kills_and_clusters_give_the_same_bytes_with_a_step_for_each_hand(takeset, failing_look, tmp_path):
    """Killed before each file that gets its name, and converted by workers that share a folder."""
    takes = tmp_path / "takes"
    for number in 1, 2, 3:
        simulated(takeset, takes / f"pick{number}", "left,right", "--skew", "left=0.05", "--seed", str(number), seconds=0.4)
    (tmp_path / "mean.py").write_text(
        "from takeset import steps\n"
        "@steps.rows(reads=['camera_image'], writes=steps.Vector('light', ['mean']))\n"
        "def light(block): return block.camera_image.mean(axis=(1, 2, 3))[:, None]\n"
    )
    members = {"left": "*-left", "right": "*-right"}
    file = pipeline(tmp_path, {"members": members}, *[{"python": {"file": "mean.py", "member": side}} for side in members])

    def command(output):
        return ["run", takes, "-o", output, "--pipeline", file, "--python", sys.executable]

    takeset(*command(tmp_path / "whole"), check=0)
    whole, number = outputs(tmp_path / "whole"), 0
    while True:
        number += 1
        output = tmp_path / f"killed{number}"
        process = stopped([BINARY, *command(output), "--jobs", "2"], failing_look, "rename", output, number)
        if process.returncode is not None:
            assert process.returncode == 0
            break
        process.kill()
        process.wait()
        takeset(*command(output), check=0)
        assert outputs(output) == whole, number
    assert number > 5
    listed, _ = plan(takeset, takes, output=tmp_path / "cluster", arguments=["--pipeline", file, "--python", sys.executable])
    assert len(listed) == 3
    for task in 2, 0, 1:
        takeset("convert", tmp_path / "cluster", "--task", task, "--python", sys.executable, check=0)
    takeset("publish", tmp_path / "cluster", check=0)
    assert outputs(tmp_path / "cluster") == whole
