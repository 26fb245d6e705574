"""`actions`: every kind against SciPy on the stored poses, its masks, parts and widths, and what takes without poses get."""

import itertools
import json

import h5py
import numpy as np
import pytest
from action_oracle import PARTS, Expected, actions_are, close, every_dataset, from_six, long_steps, statistics_are, train
from conversions import pipeline
from outputs import demos, manifest, take
from scipy.spatial.transform import Rotation
from schemas import STATISTICS, layout
from stack_sessions import still, v1, v2, v3_raw, v3_slam
from videos import video_file

LOST = [12, 13, 14]


def with_holes():
    """A session that lost three frames in a row, whose glove lost one joint for some readings and then all of them, and that has no
    depth value for some frames."""
    session = v2()
    session.poses = [entry for entry in session.poses if entry["rgbIndex"] not in LOST]
    for number in LOST:
        del session.rgb[number]
    for entry in session.poses[20:30]:
        del entry["depth"]
    for reading in session.encoders[3:6]:
        reading["index_pip"] = -1.0
    del session.encoders[20:27]
    return session


TAKES = {"bare": v1, "glove": v2, "holes": with_holes}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    root = tmp_path_factory.mktemp("actions")
    for name, build in TAKES.items():
        build().write(root / name)
    return root


def convert(takeset, recordings, output, names=tuple(TAKES), steps=(), **options):
    """The demos and metas by take of one run with these options of `actions`."""
    options = {name.replace("_", "-"): value for name, value in options.items()}
    arguments = pipeline(output.parent, actions=options, **dict(steps))
    takeset.convert(*(recordings / name for name in names), output=output, arguments=arguments)
    found = demos(output)
    assert set(found) == set(names)
    return found


CHOICES = [
    {"kind": kind, "joints": joints, "angle": angle, "rotation_layout": layout}
    for kind, joints, angle in itertools.product(PARTS, ["none", "absolute", "delta"], ["degree", "radian"])
    for layout in (["columns", "rows"] if kind.endswith("6d") else ["columns"])
]


def quick(options):
    """Every kind, layout and use of joints is in the quick tier, each with one unit of angles."""
    return (options["angle"] == "radian") == (options["joints"] == "delta")


@pytest.mark.parametrize("options", [
    pytest.param(options, marks=[] if quick(options) else pytest.mark.slow, id="-".join(options.values())) for options in CHOICES
])
def test_values_and_masks_are_scipys(takeset, recordings, tmp_path, options):
    found = convert(takeset, recordings, tmp_path / "out", **options)
    for name, (demo, meta) in found.items():
        expected = actions_are(demo, meta, **options)
        assert ("joints" in demo["action_dict"]) == (name != "bare")
        assert expected.actions()[1][:-1].all() == (name != "holes")
    if options["joints"] != "none":
        joints = found["glove"][0]["action_dict/joints"].attrs["unit"]
        assert joints == {"degree": found["glove"][0]["obs/joints"].attrs["unit"], "radian": "rad"}[options["angle"]]
    takeset("verify", tmp_path / "out", check=0)


def test_a_step_over_a_gap_is_masked(takeset, recordings, tmp_path):
    demo, meta = convert(takeset, recordings, tmp_path / "out")["holes"]
    (row,) = long_steps(meta)
    assert meta["source_index"][row : row + 2].tolist() == [11, 15] and meta["gaps"][:, 0].tolist() == [row]
    assert (demo["actions_valid"][:] == 0).nonzero()[0].tolist() == [row, len(demo["actions"]) - 1]
    assert not demo["actions"][row].any() and demo["actions"][row - 1].any() and demo["actions"][row + 1].any()
    assert demo["dones"][row] == 0  # the episode goes on


def test_a_missing_joint_masks_the_row_only_if_joints_are_asked_for(takeset, recordings, tmp_path):
    missing = {}
    for joints in "none", "absolute", "delta":
        (tmp_path / joints).mkdir()
        demo, meta = convert(takeset, recordings, tmp_path / joints / "out", ["holes"], joints=joints)["holes"]
        (gap,) = long_steps(meta)
        valid = demo["obs/joints_valid"][:]
        missing[joints] = set((demo["actions_valid"][:-1] == 0).nonzero()[0].tolist()) - {gap}
    absent = (valid == 0).any(1).nonzero()[0]
    assert (valid[absent] == 0).sum(1).min() == 1 and (valid[absent] == 0).sum(1).max() == 4  # one channel alone, and all
    assert missing["none"] == set()
    assert missing["absolute"] == set((absent - 1).tolist()) - {-1, gap}
    assert missing["delta"] == {*(absent - 1).tolist(), *absent.tolist()} - {-1, gap, len(valid) - 1}


def test_the_last_row_is_no_motion_with_its_joints_and_is_masked(takeset, recordings, tmp_path):
    for kind in PARTS:
        (tmp_path / kind).mkdir()
        found = convert(takeset, recordings, tmp_path / kind / "out", ["glove"], kind=kind, joints="absolute")
        demo, _ = found["glove"]
        last, pose = demo["actions"][-1], demo["obs/pose"][-1]
        still = {
            "relative-6d": [0, 0, 0, 1, 0, 0, 0, 1, 0], "absolute-quat": pose, "delta-pose": np.zeros(6),
            "absolute-6d": np.concatenate([pose[:3], Rotation.from_quat(pose[3:]).as_matrix()[:, :2].T.ravel()]),
        }[kind]
        assert np.abs(last - np.concatenate([still, demo["obs/joints"][-1]])).max() < 1e-6
        assert demo["actions_valid"][-1] == 0 and demo["dones"][-1] == 1 and demo["actions_valid"][:-1].all()


@pytest.mark.parametrize("kind", PARTS)
def test_a_last_row_that_is_dropped_is_the_next_of_the_one_before(takeset, recordings, tmp_path, kind):
    """Nothing is invented then: every action that is left leads to a row of the take."""
    (tmp_path / "hold").mkdir()
    held = convert(takeset, recordings, tmp_path / "hold/out", ["glove"], kind=kind, joints="absolute")
    found = convert(takeset, recordings, tmp_path / "out", ["glove"], kind=kind, joints="absolute", last="drop")
    (kept, meta), (whole, _) = found["glove"], held["glove"]
    count = len(whole["actions"])
    assert len(kept["actions"]) == count - 1 == len(meta["timestamp_ns"]) and kept["actions_valid"][:].all()
    assert np.array_equal(kept["actions"][:], whole["actions"][:-1]) and kept["dones"][:].tolist() == [0] * (count - 2) + [1]
    assert {"reason": "no-next-row", "count": 1} in [d for step in take(tmp_path / "out", "glove")["steps"] for d in step["dropped"]]
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.parametrize("step", [{"decimate": {"every": 3}}, {"resample": {"rate": 7}}, {"drop-frames": {"with": ["depth-missing"]}}], ids=str)
def test_a_step_behind_the_actions_leaves_no_row_without_a_next_one(takeset, recordings, tmp_path, step):
    pipeline = {"version": 1, "transforms": [{"align": {}}, {"actions": {"last": "drop"}}, step]}
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline))
    takeset("run", recordings / "holes", "--pipeline", tmp_path / "p.yaml", "--output", tmp_path / "out", check=0)
    valid = demos(tmp_path / "out")["holes"][0]["actions_valid"][:]
    assert len(valid) > 3 and valid[-1] == 1
    steps = take(tmp_path / "out", "holes")["steps"]
    assert [step["frames_out"] for step in steps] == [step["frames_in"] for step in steps[1:]] + [len(valid)]
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.parametrize("rotation_layout", ["columns", "rows"])
def test_poses_follow_from_actions(takeset, recordings, tmp_path, rotation_layout):
    """T_t composed with the relative action is T_{t+1}, and the absolute action is T_{t+1} itself."""
    for kind in "relative-6d", "absolute-6d":
        (tmp_path / kind).mkdir()
        found = convert(takeset, recordings, tmp_path / kind / "out", ["glove", "bare"], kind=kind, rotation_layout=rotation_layout)
        for demo, _ in found.values():
            pose, actions = demo["obs/pose"][:].astype("f8"), demo["actions"][:-1].astype("f8")
            turned, moved = from_six(actions[:, 3:9], rotation_layout), actions[:, :3]
            here = Rotation.from_quat(pose[:-1, 3:])
            if kind == "relative-6d":
                turned, moved = here * turned, pose[:-1, :3] + here.apply(moved)
            assert np.abs(moved - pose[1:, :3]).max() < 1e-6
            assert (turned.inv() * Rotation.from_quat(pose[1:, 3:])).magnitude().max() < 2e-6


def test_small_steps_keep_their_direction(takeset, recordings, tmp_path):
    """Rotation vectors of a tenth of a degree, where a cosine would say nothing."""
    found = convert(takeset, recordings, tmp_path / "out", ["glove"], kind="delta-pose")
    demo, _ = found["glove"]
    vectors = demo["actions"][:-1, 3:].astype("f8")
    pose = demo["obs/pose"][:].astype("f8")
    turned = Rotation.from_rotvec(vectors) * Rotation.from_quat(pose[:-1, 3:])
    assert (turned.inv() * Rotation.from_quat(pose[1:, 3:])).magnitude().max() < 1e-6
    assert 1e-3 < np.linalg.norm(vectors, axis=1).max() < 0.05


# Grippers


def test_a_gripper_is_the_last_part(takeset, recordings, tmp_path):
    options = {"joints": "absolute", "gripper": "depth_point"}
    found = convert(takeset, recordings, tmp_path / "out", ["glove", "holes"], **options)
    for demo, meta in found.values():
        actions_are(demo, meta, **options)
        assert demo["actions"].attrs["parts"].endswith(" joints:4 gripper:1")
        close(demo["actions"][:-1, -1][demo["actions_valid"][:-1] == 1], demo["obs/depth_point"][1:, 0][demo["actions_valid"][:-1] == 1])
    demo, meta = found["holes"]
    (gap,) = long_steps(meta)
    absent = (demo["obs/depth_point_valid"][:, 0] == 0).nonzero()[0]
    assert len(absent) > 2 and not demo["actions_valid"][:][absent - 1].any()
    takeset("verify", tmp_path / "out", check=0)


def test_a_gripper_of_several_numbers(takeset, recordings, tmp_path):
    options = {"kind": "absolute-quat", "gripper": "joints"}
    (found,) = convert(takeset, recordings, tmp_path / "out", ["glove"], **options).values()
    actions_are(*found, **options)
    assert found[0]["actions"].attrs["parts"] == "absolute_position:3 absolute_rotation_quat:4 gripper:4"


def test_a_gripper_that_is_not_there_fails_the_take_before_an_image_is_read(takeset, recordings, tmp_path):
    """A plan, which decodes nothing, says so in the same words."""
    inputs = recordings / "bare", recordings / "glove"
    arguments = pipeline(tmp_path, actions={"gripper": "depth_point"})
    done = takeset.convert(*inputs, output=tmp_path / "out", arguments=arguments, check=3)
    entry = take(tmp_path / "out", "bare")
    assert entry["outcome"] == "failed" and "depth_point" in entry["reason"] and "gripper" in entry["reason"]
    assert [f["severity"] for f in entry["findings"]].count("error") == 1
    assert entry["reason"] in done.stderr
    assert take(tmp_path / "out", "glove")["outcome"] == "written" and list(demos(tmp_path / "out")) == ["glove"]
    planned = json.loads(takeset("plan", *inputs, "--json", *arguments, check=3).stdout)["takes"]
    assert {one["id"]: (one["outcome"], one["reason"]) for one in planned} == {
        "bare": ("failed", entry["reason"]), "glove": ("written", None),
    }
    takeset("verify", tmp_path / "out", check=0)


# Takes of several kinds


def test_takes_without_poses_have_no_actions_and_convert(takeset, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/pour.mov").write_bytes(video_file(count=6))
    takeset.convert(tmp_path / "in/pour.mov", output=tmp_path / "movie")
    v3_raw().write(tmp_path / "in/raw")
    (tmp_path / "p.yaml").write_text("version: 1\nreader: {name: stack-session, poses: optional}\ntransforms: [align, actions]\n")
    takeset.convert(tmp_path / "in/raw", output=tmp_path / "raw", arguments=["--pipeline", tmp_path / "p.yaml"])
    for output in tmp_path / "movie", tmp_path / "raw":
        ((demo, _),) = demos(output).values()
        assert "pose" not in demo["obs"] and not {"actions", "actions_valid", "action_chunk"} & set(demo)
        takeset("verify", output, check=0)


def test_takes_of_other_widths_are_named_and_counted_apart(takeset, recordings, tmp_path):
    found = convert(takeset, recordings, tmp_path / "out", joints="absolute")
    assert {name: demo["actions"].shape[1] for name, (demo, _) in found.items()} == {"bare": 9, "glove": 13, "holes": 13}
    mixed = [f for f in manifest(tmp_path / "out")["record"]["findings"] if f["code"] == "mixed-sizes"]
    (named,) = [f for f in mixed if "actions" in f["message"]]
    assert named["severity"] == "warning" and "9" in named["message"] and "13" in named["message"]
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        rows = {}
        for demo in train(file).values():
            rows.setdefault(demo["actions"].shape[1], []).append(demo["actions"][:][demo["actions_valid"][:] == 1])
        groups = [group for name, group in file["stats"].items() if name.split("@")[0] == "actions"]
        assert sorted(len(group["mean"]) for group in groups) == sorted(rows) == [9, 13]
        for group in groups:
            statistics_are(group, np.concatenate(rows[len(group["mean"])]))


def test_takes_with_and_without_a_glove_batch_together_by_default(takeset, recordings, tmp_path):
    found = convert(takeset, recordings, tmp_path / "out")
    assert {demo["actions"].shape[1] for demo, _ in found.values()} == {9}
    findings = manifest(tmp_path / "out")["record"]["findings"]
    assert not [f for f in findings if "actions" in f["message"]]
    takeset("inspect", tmp_path / "out", check=0)
    assert "actions" in takeset("inspect", tmp_path / "out", check=0).stdout


def test_actions_follow_the_pose_as_it_is_stored(takeset, tmp_path):
    """After a change of the camera's axes, actions are those of the changed poses."""
    v3_slam().write(tmp_path / "slam")
    arguments = pipeline(tmp_path, pose_frame={"axes": "arkit"}, actions={})
    takeset.convert(tmp_path / "slam", output=tmp_path / "out", arguments=arguments)
    ((demo, meta),) = demos(tmp_path / "out").values()
    actions_are(demo, meta)
    assert demo["obs/pose"].attrs["camera_axes"] == "x right, y up, z back"
    assert "arbitrary" in demo["action_dict/relative_position"].attrs["unit"]


def test_decimated_rows_have_the_steps_between_them(takeset, recordings, tmp_path):
    found = convert(takeset, recordings, tmp_path / "out", ["glove"], steps={"decimate": {"every": 4}}, joints="delta")
    demo, meta = found["glove"]
    assert len(demo["actions"]) == 10 and demo["actions_valid"][:-1].all()
    actions_are(demo, meta, joints="delta")


@pytest.mark.parametrize("count", [1, 2])
def test_the_shortest_takes(takeset, tmp_path, count):
    session = still()
    session.poses = session.poses[:count]
    session.rgb = {number: session.rgb[number] for number in range(count)}
    session.write(tmp_path / "short")
    takeset.convert(tmp_path / "short", output=tmp_path / "out", arguments=pipeline(tmp_path, actions={"horizon": 2, "next-obs": True}))
    ((demo, meta),) = demos(tmp_path / "out").values()
    actions_are(demo, meta, horizon=2)
    assert demo["actions_valid"][:].tolist() == [1] * (count - 1) + [0]
    takeset("verify", tmp_path / "out", check=0)


# The dataset


def test_statistics_are_those_of_the_valid_rows_of_the_training_split(takeset, recordings, tmp_path):
    for index in range(3):
        session = with_holes() if index else v2()
        for entry in session.poses:
            for row in entry["transform"][:3]:
                row[3] *= 1 + index
        session.write(tmp_path / f"in/session_{index}")
    options = {"kind": "delta-pose", "horizon": 4}
    arguments = pipeline(tmp_path, actions=options, split={"group": "take", "valid": 0.34, "seed": 5})
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=arguments)
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        chosen = train(file)
        assert len(chosen) == 2
        numbers = {name: Expected(file["data"][name], file["meta"][name], **options) for name in chosen}
        pooled = {"actions": [], "action_chunk": []}
        for name, demo in chosen.items():
            pooled["actions"].append(demo["actions"][:][demo["actions_valid"][:] == 1])
            pooled["action_chunk"].append(demo["action_chunk"][:][demo["action_chunk_valid"][:] == 1])
            for part, (_, valid) in numbers[name].dictionary().items():
                pooled.setdefault(f"action_dict/{part}", []).append(demo["action_dict"][part][:][valid])
        assert {"action_dict/joints", "action_dict/delta_position"} < set(pooled)
        for key, blocks in pooled.items():
            statistics_are(file["stats"][key], np.concatenate(blocks))


def test_a_plan_is_what_a_run_writes(takeset, recordings, tmp_path):
    options = {"joints": "absolute", "horizon": 3, "next-obs": True}
    convert(takeset, recordings, tmp_path / "out", **options)
    arguments = ["--pipeline", tmp_path / "pipeline.yaml"]
    for planned in json.loads(takeset("plan", recordings, "--json", *arguments, check=0).stdout)["takes"]:
        entry = take(tmp_path / "out", planned["id"])
        assert layout(planned) == layout(entry["output"], without=STATISTICS)
        assert "/data/demo_0/actions" in [d["path"] for d in entry["output"]["datasets"]]


def test_a_pack_holds_them_too(takeset, recordings, tmp_path):
    options = {"kind": "absolute-6d", "joints": "delta", "angle": "radian", "horizon": 3}
    convert(takeset, recordings, tmp_path / "out", **options)
    takeset("pack", tmp_path / "out", "--output", tmp_path / "packed.h5", check=0)
    with h5py.File(tmp_path / "packed.h5") as packed, h5py.File(tmp_path / "out/dataset.h5") as file:
        for name, demo in packed["data"].items():
            actions_are(demo, packed["meta"][name], **options)
        kept, own = every_dataset(packed["stats"]), every_dataset(file["stats"])
        assert set(kept) == set(own) and any(path.startswith("action_dict/") for path in own)
        assert all(np.array_equal(kept[path][:], own[path][:], equal_nan=True) for path in own)
    takeset("verify", tmp_path / "packed.h5", check=0)


def test_verify_names_a_changed_action(takeset, recordings, tmp_path):
    convert(takeset, recordings, tmp_path / "out", ["glove"])
    with h5py.File(tmp_path / "out/episodes/glove.h5", "r+") as file:
        file["data/demo_0/actions"][3, 1] += 0.5
    assert "/data/demo_0/actions" in takeset("verify", tmp_path / "out", check=2).stdout


@pytest.mark.parametrize("options, words", [
    ("{kind: relative}", "kind"), ("{joints: some}", "joints"), ("{angle: turns}", "angle"), ("{rotation-layout: both}", "rotation-layout"),
    ("{horizon: 0}", "horizon"), ("{horizon: 65}", "horizon"), ("{horizon: 1.5}", "horizon"), ("{next-obs: 3}", "next-obs"),
    ("{gripper: 7}", "gripper"), ("{chunk: 3}", "chunk"),
])
def test_options_that_are_none_are_refused_by_their_path(takeset, recordings, tmp_path, options, words):
    (tmp_path / "p.yaml").write_text(f"version: 1\ntransforms: [align, actions: {options}]\n")
    arguments = ["--pipeline", tmp_path / "p.yaml"]
    done = takeset.convert(recordings, output=tmp_path / "out", arguments=arguments, check=64)
    assert f"transforms[1].actions.{words}" in done.stderr and not (tmp_path / "out").exists()
    assert f"transforms[1].actions.{words}" in takeset("plan", recordings, *arguments, check=64).stderr
