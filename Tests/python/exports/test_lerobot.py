"""Exports for LeRobot, read by pyarrow, Pillow and NumPy: files, types, values, images, depth, statistics."""

import json
import shutil

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from images import psnr
from lerobot_datasets import (
    ACTIONS, CAMERA, DEPTH, FPS, NAMES, SPLIT, STATISTICS, STEPS, Export, dataset, edited, export, pixels, quantile_error, recordings,
)  # fmt: skip
from outputs import demos, manifest

POSE = ["x", "y", "z", "qx", "qy", "qz", "qw"]
MOTION = [*(f"relative_position.{axis}" for axis in "xyz"), *(f"relative_rotation_6d.{number}" for number in range(6))]


@pytest.fixture(scope="module")
def root(takeset, tmp_path_factory):
    """Three sessions with depth maps, of as many days, at 30 Hz and of different lengths; one with joints; one scan."""
    small = ["--size", "64x48", "--rate", FPS]
    root = recordings(takeset, tmp_path_factory.mktemp("lerobot"), "64x48", "16x12", 0.7, 0.5, 4)
    takeset.simulate(root / "glove/session_2026-03-05_100000", *small, "--variant", "v2", "--seconds", 1)
    takeset("simulate", "stray-scanner", "--output", root / "scans/scan", "--seconds", 1, *small[:2], "--depth-size", "16x12", check=0)
    return root


@pytest.fixture(scope="module")
def sessions(takeset, root):
    return dataset(takeset, root, *STEPS, *ACTIONS, *SPLIT)


@pytest.fixture(scope="module")
def exported(sessions, root):
    export(sessions, root / "lerobot", "--task", "pick up the cup")
    return Export(root / "lerobot")


def in_order(exported):
    return [row["takeset/episode_id"] for row in exported.episodes]


# Files and types


def test_info_has_what_readers_need(exported, sessions):
    info = dict(exported.info)
    features = info.pop("features")
    valid = [name for name, split in splits(sessions).items() if split == "valid"]
    rows = {name: len(demo["obs/pose"]) for name, (demo, _) in demos(sessions).items()}
    assert len(valid) == 1 and len(set(rows.values())) == 3 and max(rows.values()) > 100
    assert info == {
        "codebase_version": "v3.0", "robot_type": "stack-session", "fps": FPS, "total_episodes": 3,
        "total_frames": sum(rows.values()), "total_tasks": 1,
        "chunks_size": 1000, "data_files_size_in_mb": 100, "video_files_size_in_mb": 200, "splits": {"train": "0:2", "valid": "2:3"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet", "video_path": None,
    }  # fmt: skip
    camera = ["height", "width", "channels"]
    single = {"shape": [1], "names": None}
    assert features == {
        "observation.state": {"dtype": "float32", "shape": [7], "names": POSE},
        "action": {"dtype": "float32", "shape": [9], "names": MOTION},
        CAMERA: {"dtype": "image", "shape": [48, 64, 3], "names": camera},
        DEPTH: {"dtype": "image", "shape": [12, 16, 1], "names": camera, "info": {"is_depth_map": True, "depth_unit": "mm"}},
        "takeset.valid.camera_depth": {"dtype": "bool"} | single,
        "source_timestamp_ns": {"dtype": "int64"} | single,
        "takeset.source_index": {"dtype": "int64"} | single,
        "takeset.quality": {"dtype": "uint8"} | single,
        "timestamp": {"dtype": "float32"} | single,
        **{name: {"dtype": "int64"} | single for name in ("frame_index", "episode_index", "index", "task_index")},
    }


def splits(directory):
    found = manifest(directory)["record"]["splits"]
    return {name: split for split in ("train", "valid") for name in found[split]}


def test_only_the_state_and_the_cameras_can_become_inputs_of_a_policy(exported):
    """LeRobot takes all that begins with observation or action, and all images."""
    inputs = {n for n, f in exported.features.items() if n.startswith(("observation", "action")) or f["dtype"] in ("image", "video")}
    assert inputs == {"observation.state", "action", CAMERA, DEPTH} and not any("/" in name for name in exported.features)


def test_parquet_has_the_types_of_the_features(exported):
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    expected = {
        "observation.state": pa.list_(pa.float32(), 7), "action": pa.list_(pa.float32(), 9), CAMERA: image, DEPTH: image,
        "takeset.valid.camera_depth": pa.bool_(), "source_timestamp_ns": pa.int64(), "takeset.source_index": pa.int64(),
        "takeset.quality": pa.uint8(), "timestamp": pa.float32(), "frame_index": pa.int64(), "episode_index": pa.int64(),
        "index": pa.int64(), "task_index": pa.int64(),
    }  # fmt: skip
    (file,) = exported.files
    assert file.relative_to(exported.path).as_posix() == "data/chunk-000/file-000.parquet"
    schema = pq.read_schema(file)
    assert {field.name: field.type for field in schema} == expected and list(expected) == list(exported.features)
    assert all(column.null_count == 0 for column in pq.read_table(file).columns)
    types = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    assert list(types) == list(expected) and types[CAMERA] == {"_type": "Image"} == types[DEPTH]
    assert types["observation.state"] == {"feature": {"dtype": "float32", "_type": "Value"}, "length": 7, "_type": "Sequence"}


def test_each_episode_is_a_row_group_that_readers_can_find(exported):
    found = pq.ParquetFile(exported.files[0]).metadata
    place = found.schema.names.index("episode_index")
    ranges = [found.row_group(number).column(place).statistics for number in range(found.num_row_groups)]
    assert [(one.min, one.max) for one in ranges] == [(0, 0), (1, 1), (2, 2)]


def test_tasks_are_found_by_their_text(exported, sessions, root):
    def tasks(directory):
        table = pq.read_table(directory / "meta/tasks.parquet")
        pandas = json.loads(table.schema.metadata[b"pandas"])
        assert pandas["index_columns"] == ["task"] and [one["name"] for one in pandas["columns"]] == ["task_index", "task"]
        return table.to_pydict()

    assert tasks(exported.path) == {"task_index": [0], "task": ["pick up the cup"]}
    texts = {NAMES[0]: "pour", NAMES[1].removesuffix(".0"): "stir", NAMES[2]: "pour"}
    (root / "tasks.json").write_text(json.dumps(texts))
    export(sessions, root / "tasks", "--tasks", root / "tasks.json")
    other = Export(root / "tasks")
    assert sorted(tasks(other.path)["task"]) == ["pour", "stir"] and other.info["total_tasks"] == 2
    names = dict(zip(tasks(other.path)["task_index"], tasks(other.path)["task"]))
    for row in other.episodes:
        assert {names[n] for n in other.column("task_index", row["episode_index"])} == set(row["tasks"]) == {
            texts.get(row["takeset/episode_id"]) or texts[row["takeset/take_id"]]}  # fmt: skip


# Values


def test_rows_are_those_of_the_dataset(exported, sessions):
    for name, (demo, meta) in demos(sessions).items():
        (number,) = exported.of(name)
        stored = {"observation.state": demo["obs/pose"], "action": demo["actions"]}
        stored["takeset.valid.camera_depth"] = meta["streams/camera_depth/valid"]
        stored |= {f"takeset.{name}": meta[name] for name in ("source_index", "quality")}
        for column, values in stored.items():
            assert np.array_equal(exported.column(column, number), values[:]), column


def test_time_is_row_by_rate_and_the_true_time_is_kept(exported, sessions):
    for name, (_, meta) in demos(sessions).items():
        (number,) = exported.of(name)
        stored = meta["timestamp_ns"]
        frames = np.arange(len(stored))
        assert np.array_equal(exported.column("frame_index", number), frames)
        assert np.array_equal(exported.column("timestamp", number).astype("f4"), (frames / FPS).astype("f4"))
        assert np.array_equal(exported.column("source_timestamp_ns", number), stored[:] + stored.attrs["unix_origin_ns"])
        assert next(row for row in exported.record["episodes"] if row["id"] == name)["time_base"] == "unix"


def test_a_take_without_unix_time_has_the_time_of_its_clock(takeset, root):
    source = dataset(takeset, root, *STEPS, *ACTIONS, image="jpeg", name="scanned", takes="scans")
    export(source, root / "scan-export", "--keys", "pose,camera_image,actions")
    found = Export(root / "scan-export")
    ((_, meta),) = demos(source).values()
    assert np.array_equal(found.column("source_timestamp_ns"), meta["timestamp_ns"][:] + meta["timestamp_ns"].attrs["origin_ns"])
    assert [row["takeset/time_base"] for row in found.episodes] == ["clock:device-uptime"]
    assert [row["time_base"] for row in found.record["episodes"]] == ["clock:device-uptime"]
    assert found.features["takeset.intrinsics.camera"]["names"] == ["fx", "fy", "cx", "cy"]
    assert np.array_equal(found.column("takeset.intrinsics.camera").astype("f4"), meta["intrinsics"][:])


def test_episodes_follow_each_other(exported, sessions):
    lengths = [row["length"] for row in exported.episodes]
    ends = np.cumsum(lengths)
    assert [row["dataset_to_index"] for row in exported.episodes] == ends.tolist()
    assert [row["dataset_from_index"] for row in exported.episodes] == [0, *ends[:-1]]
    assert np.array_equal(exported.column("index"), np.arange(ends[-1]))
    assert np.array_equal(exported.column("episode_index"), np.repeat(range(3), lengths))
    assert [row["episode_index"] for row in exported.episodes] == [0, 1, 2]
    assert {row["takeset/episode_id"]: row["takeset/split"] for row in exported.episodes} == splits(sessions)
    assert [row["takeset/take_id"] for row in exported.episodes] == [name.removesuffix(".0") for name in in_order(exported)]
    assert [(row["takeset/first_row"], row["takeset/end_row"]) for row in exported.episodes] == [(0, length) for length in lengths]
    places = ("data/chunk_index", "data/file_index", "meta/episodes/chunk_index", "meta/episodes/file_index")
    assert all(row[place] == 0 for row in exported.episodes for place in places)


def test_a_split_is_a_range_of_episodes(takeset, root):
    source = dataset(takeset, root, *STEPS, {"split": {"valid": 0.34, "test": 0.34, "group": "day", "seed": 1}}, name="three")
    export(source, root / "three-export")
    found, stored = Export(root / "three-export"), manifest(source)["record"]["splits"]
    assert [row["takeset/split"] for row in found.episodes] == ["train", "valid", "test"]
    assert in_order(found) == [*stored["train"], *stored["valid"], *stored["test"]]
    assert found.info["splits"] == {"train": "0:1", "valid": "1:2", "test": "2:3"}
    export(source, root / "test-export", "--split", "test")
    assert in_order(Export(root / "test-export")) == stored["test"]


def test_joints_follow_the_pose_in_the_state(takeset, root):
    source = dataset(takeset, root, STEPS[0], STEPS[1], ACTIONS[0], {"actions": {"joints": "absolute", "last": "drop"}}, name="gloved", takes="glove")
    export(source, root / "glove-export")
    found, ((demo, _),) = Export(root / "glove-export"), demos(source).values()
    joints = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
    assert found.features["observation.state"]["names"] == [*POSE, *joints]
    assert found.features["action"]["names"] == [*MOTION, *(f"joints.{name}" for name in joints)]
    assert np.array_equal(found.column("observation.state"), np.hstack([demo["obs/pose"], demo["obs/joints"]]))
    assert np.array_equal(found.column("action"), demo["actions"][:])
    # One depth value for each image is no input of a policy.
    assert np.array_equal(found.column("takeset.depth_point")[:, None], demo["obs/depth_point"][:])
    assert np.array_equal(found.column("takeset.valid.depth_point")[:, None], demo["obs/depth_point_valid"][:])
    export(source, root / "joints-export", "--state", "joints,depth_point,pose", "--drop-keys", "camera_image")
    found = Export(root / "joints-export")
    assert found.features["observation.state"]["names"] == [*joints, "depth_point", *POSE] and "takeset.depth_point" not in found.features
    assert np.array_equal(found.column("observation.state"), np.hstack([demo["obs/joints"], demo["obs/depth_point"], demo["obs/pose"]]))
    shutil.copytree(source, root / "masked")

    def mask(demo, meta):
        demo["obs/joints_valid"][7, 2] = 0
        demo["obs/depth_point_valid"][4] = 0

    edited(root / "masked", "session_2026-03-05_100000.0", mask)
    export(root / "masked", root / "masked-export", "--drop-keys", "camera_image,actions")
    found = Export(root / "masked-export")
    assert [row["takeset/first_row"] for row in found.episodes] == [0, 8]
    assert np.array_equal(found.column("takeset.valid.depth_point", 0), np.arange(7) != 4)


def test_a_last_row_without_an_action_is_left_out_and_counted(takeset, root):
    source = dataset(takeset, root, *STEPS, ACTIONS[0], {"actions": {}}, *SPLIT, name="held")
    done = export(source, root / "held-export")
    found, rows = Export(root / "held-export"), {name: len(demo["actions"]) for name, (demo, _) in demos(source).items()}
    assert sorted(row["length"] for row in found.episodes) == sorted(count - 1 for count in rows.values())
    assert all(entry["dropped"] == {"actions": 1} for entry in found.record["episodes"])
    assert done.stderr.count("rows left out: 1 without actions") == len(rows)
    for name, (demo, _) in demos(source).items():
        assert np.array_equal(found.column("action", *found.of(name)), demo["actions"][:-1])


# Images and depth


def test_jpeg_files_keep_their_bytes(exported, sessions):
    for name, (demo, _) in demos(sessions).items():
        (number,) = exported.of(name)
        files, paths = exported.images(CAMERA, number)
        assert files == [row.tobytes() for row in demo["obs/camera_image"][:]] and len(set(files)) == len(files)
        assert paths == [f"frame-{row:06d}.jpg" for row in range(len(files))]


@pytest.mark.parametrize("stored", ["raw", "png"])
def test_pixels_become_png_files_of_the_same_pixels(takeset, root, sessions, stored):
    source = dataset(takeset, root, *STEPS, *ACTIONS, *SPLIT, image=stored, name=stored)
    export(source, root / f"{stored}-export", "--episodes", NAMES[0])
    files, paths = Export(root / f"{stored}-export").images(CAMERA, 0)
    rows = demos(source)[NAMES[0]][0]["obs/camera_image"][:]
    for row, data, path in zip(rows, files, paths, strict=True):
        assert data.startswith(b"\x89PNG") and path.endswith(".png")
        assert data == row.tobytes() if stored == "png" else np.array_equal(pixels(data), row)
    if stored == "raw":
        export(source, root / "jpegs", "--episodes", NAMES[0], "--images", "jpeg", "--quality", 95)
        files, paths = Export(root / "jpegs").images(CAMERA, 0)
        assert all(data.startswith(b"\xff\xd8") and path.endswith(".jpg") for data, path in zip(files, paths))
        assert min(psnr(pixels(data), row) for data, row in zip(files, rows, strict=True)) > 38


def test_depth_is_exact_and_holes_stay_holes(takeset, root, sessions):
    source = dataset(takeset, root, *STEPS, *ACTIONS, name="holes")
    with h5py.File(source / f"episodes/{NAMES[0]}.h5") as file:
        before = file["data/demo_0/obs/camera_depth"][:]
    edits = {(0, 2, 3): 0, (1, 0, 0): 65535, (2, 5, 5): 1}

    def punch(demo, meta):
        for place, value in edits.items():
            demo["obs/camera_depth"][(*place, 0)] = value
        demo["obs/camera_depth"][4] = 0
        meta["streams/camera_depth/valid"][4] = 0

    edited(source, NAMES[0], punch)
    export(source, root / "holes-export", "--episodes", NAMES[0])
    found = Export(root / "holes-export")
    depth = np.stack([pixels(data) for data in found.images(DEPTH, 0)[0]])
    assert depth.dtype == np.uint16 and all(depth[place] == value for place, value in edits.items()) and not depth[4].any()
    for place in edits:
        before[(*place, 0)] = depth[place]
    before[4] = 0
    assert np.array_equal(depth[..., None], before) and found.features[DEPTH]["info"]["depth_unit"] == "mm"
    assert np.flatnonzero(~found.column("takeset.valid.camera_depth")).tolist() == [4] and found.info["total_frames"] == len(depth)


def test_depth_in_meters_becomes_whole_millimeters(takeset, root):
    source = dataset(takeset, root, *STEPS[:2], {"resample-depth": {"unit": "m"}}, *ACTIONS, name="meters")
    edited(source, NAMES[0], lambda demo, meta: demo["obs/camera_depth"].__setitem__((0, 0, slice(3), 0), [70, 65.535, 0.0004]))
    export(source, root / "meters-export", "--episodes", NAMES[0])
    found = Export(root / "meters-export")
    depth = np.stack([pixels(data) for data in found.images(DEPTH, 0)[0]])
    stored = demos(source)[NAMES[0]][0]["obs/camera_depth"][..., 0].astype("f8")
    assert depth[0, 0, :3].tolist() == [0, 65535, 0] and stored.dtype == np.float64
    stored[0, 0, 0] = 0
    assert np.abs(depth - stored * 1000).max() <= 0.5 + 1e-4
    lost = found.record["lost"]
    assert "depth: 1 value beyond 65.535 m became holes" in lost and "depth: meters were rounded to whole millimeters" in lost


# Statistics


def numbers(exported, name, episode):
    values = exported.column(name, episode).astype("f8")
    return values.reshape(len(values), -1)


def test_statistics_of_each_episode(exported):
    for row in exported.episodes:
        for name, feature in exported.features.items():
            found = {statistic: np.array(row[f"stats/{name}/{statistic}"]) for statistic in STATISTICS}
            if feature["dtype"] == "image":
                depth = name == DEPTH
                shown = np.stack([pixels(data) for data in exported.images(name, row["episode_index"])[0]])
                # LeRobot looks at 100 images of an episode, or more of a very long one.
                rows = np.unique(np.round(np.linspace(0, len(shown) - 1, min(len(shown), 100))).astype(int))
                values = shown[rows].reshape(-1, 1 if depth else 3) / (1 if depth else 255)
                assert all(value.shape == ((1, 1, 1) if depth else (3, 1, 1)) for key, value in found.items() if key != "count"), name
                found = {key: value.reshape(-1) for key, value in found.items()}
                count = len(rows)
            else:
                values = numbers(exported, name, row["episode_index"])
                count = len(values)
            assert found["count"].tolist() == [count], name
            expected = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0), "std": values.std(0)}
            for statistic, value in expected.items():
                assert np.allclose(found[statistic], value, rtol=1e-9, atol=1e-12), (name, statistic)
            width = (values.max(0) - values.min(0)) / 5000  # of a bin of LeRobot's histograms
            for part in (0.01, 0.1, 0.5, 0.9, 0.99):
                error = quantile_error(values, found[f"q{round(part * 100):02d}"], part)
                assert (error <= width + 1e-9 * np.abs(values).max(0) + 1e-9).all(), (name, part, error, width)


def test_statistics_of_all_episodes(exported):
    """As LeRobot merges them: quantiles are means of the episodes' quantiles, weighted by counts."""
    assert set(exported.stats) == set(exported.features)
    for name, found in exported.stats.items():
        assert set(found) == set(STATISTICS)
        counts = np.array([row[f"stats/{name}/count"][0] for row in exported.episodes], "f8")
        each = {key: np.array([row[f"stats/{name}/{key}"] for row in exported.episodes]) for key in STATISTICS}
        assert found["count"] == [counts.sum()]
        assert np.array_equal(found["min"], each["min"].min(0)) and np.array_equal(found["max"], each["max"].max(0))
        for key in ("mean", "q01", "q10", "q50", "q90", "q99"):
            assert np.allclose(found[key], np.average(each[key], axis=0, weights=counts), rtol=1e-9, atol=1e-12), (name, key)
        if exported.features[name]["dtype"] != "image":
            values = numbers(exported, name, None)
            assert np.allclose(found["mean"], values.mean(0), rtol=1e-9, atol=1e-12)
            assert np.allclose(found["std"], values.std(0), rtol=1e-6, atol=1e-9), name


def test_statistics_of_images_are_of_as_many_as_lerobot_takes():
    """Numbers of images, and of pixels of large ones, that its own functions give."""
    from takeset.lerobot import _statistics

    counts = {1: 1, 99: 99, 100: 100, 464: 100, 1000: 177, 5000: 594, 20_000: 1681, 10_000_000: 10_000}
    for rows, count in counts.items():
        found = _statistics.sampled(rows)
        assert (len(found), found[0], found[-1]) == (count, 0, rows - 1) and (np.diff(found) > 0).all()
    for (height, width), step in {(299, 200): 1, (480, 640): 4, (640, 480): 4, (300, 300): 2, (1440, 1920): 12}.items():
        image = np.random.default_rng(2).integers(0, 256, (height, width, 3), "u1")
        pixels = _statistics.Pixels(3, 256)
        pixels.add(image)
        expected = (image[::step, ::step].reshape(-1, 3) / 255).mean(0)
        assert np.allclose(pixels.statistics(255)["mean"].reshape(-1), expected, rtol=1e-12)
