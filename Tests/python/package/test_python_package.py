"""The Python package: datasets, episodes and streams against the same files read by h5py and json."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest
from command import ROOT
from outputs import manifest
from package_datasets import ARM, FAILED, SCAN, SLAM, STACK, convert

import takeset as package
from takeset import TakesetError


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory, takeset):
    """One episode for each take."""
    return convert(takeset, source, tmp_path_factory.mktemp("package"), "whole", normalize={})


@pytest.fixture(scope="module")
def split(source, tmp_path_factory, takeset):
    """Several episodes for each take."""
    return convert(takeset, source, tmp_path_factory.mktemp("package"), "split", split_at=0.3)


@pytest.fixture(scope="module")
def packed(split, tmp_path_factory, takeset):
    path = tmp_path_factory.mktemp("package") / "packed.h5"
    takeset("pack", split, "--output", path, check=0)
    return path


@pytest.fixture
def ds(whole):
    with package.open(whole) as dataset:
        yield dataset


def by_h5py(directory):
    """Every episode as h5py has it: (name, group of /data, group of /meta)."""
    file = h5py.File(directory if directory.suffix == ".h5" else directory / "dataset.h5")
    return [(name, file["data"][name], file["meta"][name]) for name in file["data"]]


def keys_of(data):
    return [key for key, member in data["obs"].items() if "kind" in member.attrs]


def actions_of(data):
    return ["actions", "action_chunk", *(f"action_dict/{part}" for part in data["action_dict"])]


# Opening


def test_a_directory_its_index_and_a_packed_file_have_the_same_episodes(split, packed):
    expected = [(name, data.attrs["take_id"], data.attrs["num_samples"]) for name, data, _ in by_h5py(split)]
    assert len(expected) == 16
    for path in split, str(split), split / "dataset.h5", packed:
        with package.open(path) as ds:
            assert [(episode.name, episode.id, len(episode)) for episode in ds] == expected
            assert [episode.index for episode in ds.episodes] == list(range(16)) and len(ds) == 16 and ds.rows == 240


def test_a_shard_is_a_dataset_of_one_episode_that_knows_its_manifest(split):
    with package.open(split / f"episodes/{STACK}.1.h5") as ds:
        (episode,) = ds
        assert (episode.name, episode.id, episode.take_id, episode.part, episode.split) == ("demo_0", f"{STACK}.1", STACK, 1, "train")
        assert [take["id"] for take in ds.takes] == [f"{STACK}.1"] and ds.splits == {} and len(ds.statistics) == 0
        assert {finding.code for finding in episode.findings} == {
            "frames-dropped", "depth-missing", "count-mismatch", "day-contradictory", "short-episode"}
        assert ds.record == manifest(split)["record"] and ds.findings == []


def test_a_shard_by_itself_has_no_manifest(split, tmp_path):
    (tmp_path / "alone.h5").write_bytes((split / f"episodes/{ARM}.0.h5").read_bytes())
    with package.open(tmp_path / "alone.h5") as ds:
        assert ds.record is None and ds.record_sha256 is None and ds.takes == [] and ds.findings == []
        assert (ds[0].id, ds[0].take, ds[0].findings, ds[0].split) == (f"{ARM}.0", None, [], None)
        np.testing.assert_array_equal(ds[0]["pose"][:], by_h5py(tmp_path / "alone.h5")[0][1]["obs/pose"][:])


def test_episodes_are_found_by_number_id_name_and_slice(ds):
    ids = [episode.id for episode in ds]
    assert ids == [SCAN, STACK, ARM, SLAM]
    assert ds[1] is ds[-3] is ds[STACK] is ds["demo_000001"] is ds[np.int64(1)] and [episode.id for episode in ds[1:3]] == ids[1:3]
    assert STACK in ds and "demo_000001" in ds and ds[1] in ds and FAILED not in ds and None not in ds
    with pytest.raises(IndexError, match="has 4 episodes, from 0, and episode 4 was asked for"):
        ds[4]
    with pytest.raises(KeyError, match="has no episode nobody"):
        ds["nobody"]
    with pytest.raises(TypeError, match=r"episodes are found by number, id or slice, found 1\.5"):
        ds[1.5]


def test_an_id_without_an_episode_says_why(ds, split):
    with pytest.raises(TakesetError, match=f"has no episode {FAILED}: the take failed: poses.json: .*no poses.json"):
        ds[FAILED]
    with package.open(split) as parts, pytest.raises(TakesetError, match=rf"that take was split into {SCAN}\.0, {SCAN}\.1"):
        parts[SCAN]


def test_what_the_manifest_says_is_what_the_dataset_says(ds, whole):
    content = manifest(whole)
    assert ds.record == content["record"] and ds.record_sha256 == content["record_sha256"] and ds.takes == content["record"]["takes"]
    assert [take["outcome"] for take in ds.takes].count("failed") == 1
    for mine, entries in [(ds.findings, content["record"]["findings"]), *((e.findings, e.take["findings"]) for e in ds)]:
        assert [{k: v for k, v in vars(found).items() if v is not None} for found in mine] == entries
    assert {take["id"]: take for take in ds.takes}[STACK] == ds[STACK].take
    assert "mixed-units" in {finding.code for finding in ds.findings}
    assert "warning frames-dropped: " in str(next(finding for finding in ds[STACK].findings if finding.code == "frames-dropped"))


def test_parts_name_their_take(split, packed):
    with package.open(split) as ds:
        assert [(e.id, e.take_id, e.part) for e in ds] == [
            (take["id"], take["take"], take["part"]) for take in manifest(split)["record"]["takes"] if take["output"]
        ]
    with package.open(packed) as ds:  # Without a manifest, a dot in an id may be the take's own.
        assert ds[0].take_id == ds[0].id == f"{SCAN}.0" and ds[0].part is None


def test_splits_are_the_masks(ds, whole):
    with h5py.File(whole / "dataset.h5") as file:
        masks = {name: [demo.decode() for demo in file["mask"][name]] for name in file["mask"]}
    assert {split: [episode.name for episode in episodes] for split, episodes in ds.splits.items()} == masks
    assert list(ds.splits) == ["train", "valid", "test"] and 0 < len(masks["valid"]) < 4
    for episode in ds:
        assert episode.name in masks[episode.split]


def test_masks_of_others_are_splits_too_but_no_episode_is_in_one(whole, tmp_path):
    copy = tmp_path / "copy.h5"
    copy.write_bytes((whole / "dataset.h5").read_bytes())
    with h5py.File(copy, "r+") as file:
        file["mask/half"] = np.array([b"demo_000001", b"demo_000099"])
    with package.open(copy) as ds:
        assert [episode.index for episode in ds.splits["half"]] == [1] and list(ds.splits) == ["train", "valid", "test", "half"]


# Streams


def test_every_stream_has_the_values_shapes_and_units_of_the_file(ds, whole):
    for episode, (_, data, _) in zip(ds, by_h5py(whole), strict=True):
        assert episode.keys() == list(episode) == keys_of(data)
        for key in [*keys_of(data), *actions_of(data), "rewards", "dones", *(f"next_obs/{key}" for key in keys_of(data))]:
            stored = data[f"obs/{key}"] if key in keys_of(data) else data[key]
            stream = episode[key]
            assert key in episode and stream.name == key and len(stream) == len(stored)
            assert (stream.shape, stream.dtype, stream.unit) == (stored.shape, stored.dtype, stored.attrs["unit"])
            assert stream.kind == stored.attrs.get("kind", {"rewards": "reward", "dones": "done"}.get(key))
            assert stream.attrs == dict(stored.attrs) and stream.dataset == stored and stream.encoding == "raw"
            np.testing.assert_array_equal(stream[:], stored[:])
            np.testing.assert_array_equal(np.asarray(stream, np.float64), stored[:].astype(np.float64))


def test_rows_are_numbers_slices_arrays_and_masks(ds, whole):
    rows = [
        0, 59, -1, np.int32(7), slice(3, 19), slice(None, None, 7), slice(50, 2, -3), slice(40, 40), slice(-4, None), slice(0, 999),
        [5, 1, 1, -2, -1], np.array([], np.int64), [], range(9, 0, -2), np.arange(60) % 3 == 0, np.array([[1, 2]])[0].astype(np.uint8),
    ]  # fmt: skip
    stored = by_h5py(whole)[1][1]["obs"]
    for key in "camera_image", "camera_depth", "pose":
        everything = stored[key][:]
        for index in rows:
            expected = everything[np.asarray(index, np.int64) if isinstance(index, (list, range)) else index]
            found = ds[STACK][key][index]
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype and found.shape == expected.shape


@pytest.mark.parametrize("key", ["camera_image", "camera_depth", "pose"])
def test_rows_that_are_not_there_are_refused(ds, key):
    stream = ds[STACK][key]
    for index in 60, -61, [0, 60], np.ones(59, bool):
        with pytest.raises(IndexError, match=f"{key} has .*60|{key} has rows 0 to 59"):
            stream[index]
    for index in ("a", 0), "5", 1.5, [0.5], np.zeros((2, 2), int), None:
        with pytest.raises(TypeError, match="rows are a number, a slice or a one-dimensional array"):
            stream[index]


def test_a_second_index_is_that_of_the_values(ds, whole):
    for key in "camera_image", "pose":
        expected, stream = by_h5py(whole)[1][1]["obs"][key][:], ds[STACK][key]
        last = (..., 0)
        for index in (slice(None), slice(0, 3)), (5, 1), (slice(2, 9, 3), -1), ([4, 2], slice(0, 2)), (-1, slice(None), 0) if key != "pose" else (7,), last, ():
            np.testing.assert_array_equal(stream[index], expected[index])
    with pytest.raises(IndexError):
        ds[STACK]["pose"][0, 7]


def test_a_split_that_is_not_there_is_named_with_those_that_are(ds):
    with pytest.raises(KeyError, match="no split tran; it has train"):
        ds.splits["tran"]


def test_rows_are_read_into_an_array_that_is_given(ds, whole):
    for key in "camera_image", "camera_depth", "pose":
        stored, stream = by_h5py(whole)[1][1]["obs"][key], ds[STACK][key]
        out = np.full((4, *stored.shape[1:]), 7, stored.dtype)
        for rows in slice(20, 24), [9, 3, 3, 50]:
            assert stream.read(rows, out) is out
            np.testing.assert_array_equal(out, stored[:][rows])
        for wrong in out[:3], out.astype(np.float64), out[::-1]:
            with pytest.raises(TypeError, match="C-contiguous array of shape"):
                stream.read(slice(20, 24), wrong)


def test_what_is_read_belongs_to_the_caller(ds):
    for key in "camera_image", "camera_depth", "pose":
        stream = ds[STACK][key]
        first = stream[5:9]
        kept = first.copy()
        first[...] = 0
        np.testing.assert_array_equal(stream[5:9], kept)
    ds[STACK].times_ns[...] = 1
    ds[STACK]["pose"].valid[...] = False
    assert ds[STACK].times_ns[0] == 0 and ds[STACK]["pose"].valid.all()


def test_masks_are_those_of_the_file(ds, whole):
    holes = 0
    for episode, (_, data, meta) in zip(ds, by_h5py(whole), strict=True):
        for key in keys_of(data):
            valid, elements = meta[f"streams/{key}/valid"][:] == 1, data["obs"].get(f"{key}_valid")
            np.testing.assert_array_equal(episode[key].valid, valid)
            np.testing.assert_array_equal(episode[f"next_obs/{key}"].valid, np.append(valid[1:], valid[-1]))
            assert (episode[key].mask() is None) == (elements is None)
            if elements is not None:
                np.testing.assert_array_equal(episode[key].mask(slice(10, 30)), elements[10:30] == 1)
                np.testing.assert_array_equal(episode[key].mask([4, 2]), elements[:][[4, 2]] == 1)
                assert episode[key].mask().dtype == bool
                holes += int((elements[:] == 0).any())
            holes += int(not valid.all())
        chunk = data["action_chunk_valid"][:] == 1
        np.testing.assert_array_equal(episode["action_chunk"].mask(), chunk)
        np.testing.assert_array_equal(episode["action_chunk"].valid, chunk.any(axis=1))
        np.testing.assert_array_equal(episode["actions"].valid, data["actions_valid"][:] == 1)
        assert episode["actions"].mask() is None and episode["rewards"].valid.all()
        for part in data["action_dict"]:
            np.testing.assert_array_equal(episode[f"action_dict/{part}"].valid, meta[f"action_dict/{part}_valid"][:] == 1)
    assert holes >= 4  # depth maps, their elements, images, joints


def test_alignment_is_that_of_the_file(ds, whole):
    late = 0
    for episode, (_, data, meta) in zip(ds, by_h5py(whole), strict=True):
        for key in keys_of(data):
            np.testing.assert_array_equal(episode[key].dt_ns, meta[f"streams/{key}/dt_ns"][:])
            np.testing.assert_array_equal(episode[key].source_index, meta[f"streams/{key}/source_index"][:])
            late += int(episode[key].dt_ns.any())
        assert not episode["actions"].dt_ns.any()
    assert late >= 2


def test_channels_have_names(ds):
    pose = ["x", "y", "z", "qx", "qy", "qz", "qw"]
    motion = [f"relative_position.{axis}" for axis in "xyz"] + [f"relative_rotation_6d.{i}" for i in range(6)]
    joints = ["index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip"]
    arm = ds[ARM]
    assert arm["pose"].names == pose and arm["actions"].names == arm["action_chunk"].names == motion and arm["joints"].names == joints
    assert arm["action_dict/joints"].names == [f"joints.{name}" for name in joints] and arm["depth_point"].names == ["depth_point"]
    assert arm["actions"].parts == {"relative_position": 3, "relative_rotation_6d": 6} and arm["pose"].parts == {}
    assert arm["camera_image"].names == ["red", "green", "blue"]


def test_a_stream_that_is_not_there_is_a_key_error_that_names_those_that_are(ds):
    with pytest.raises(KeyError, match=rf"demo_000002 \({ARM}\) has no stream depth; it has camera_image, depth_point, joints, pose, "):
        ds[ARM]["depth"]
    assert "depth" not in ds[ARM] and "actions" in ds[ARM] and "action_dict/joints" in ds[ARM] and 3 not in ds[ARM]


# Rows, cameras, sensors


def test_times_and_columns_are_those_of_the_file(ds, whole):
    for episode, (_, data, meta) in zip(ds, by_h5py(whole), strict=True):
        stored = meta["timestamp_ns"]
        for mine, name in [(episode.times_ns, "timestamp_ns"), (episode.source_index, "source_index"), (episode.gaps, "gaps")]:
            np.testing.assert_array_equal(mine, meta[name][:])
            assert mine.dtype == np.int64
        np.testing.assert_array_equal(episode.quality, meta["quality"][:])
        assert episode.quality_bits[0] == "pose-repeated" and episode.reader == data.attrs["reader"]
        assert (episode.clock, episode.origin_ns) == (stored.attrs["clock"], stored.attrs["origin_ns"]) and not episode.is_resampled
        assert episode.seconds == (stored[-1] - stored[0]) / 1e9
        assert episode.group == data and episode.meta == meta
        if "unix_origin_ns" in stored.attrs:
            np.testing.assert_array_equal(episode.unix_ns, stored[:] + stored.attrs["unix_origin_ns"])
        else:
            assert episode.unix_ns is None
    assert ds[SCAN].unix_ns is None and ds[STACK].unix_ns is not None


def test_segments_are_the_runs_between_gaps_and_missing_frames_count_in_the_rate(ds):
    episode = ds[STACK]
    cuts = [row + 1 for row in range(59) if episode.times_ns[row + 1] - episode.times_ns[row] > 25e6]
    assert len(cuts) == 1 and episode.segments() == [(0, cuts[0]), (cuts[0], 60)] and ds[ARM].segments() == [(0, 60)]
    missing = int(round((episode.times_ns[cuts[0]] - episode.times_ns[cuts[0] - 1]) / (1e9 / 60))) - 1
    assert episode.rate_hz == pytest.approx((59 + missing) / episode.seconds) and abs(episode.rate_hz - 60) < 0.05


def test_intrinsics_are_those_of_each_stream(ds, whole):
    meta = by_h5py(whole)[0][2]
    scan = ds[SCAN]
    np.testing.assert_array_equal(scan.intrinsics(), meta["intrinsics"][:].astype(np.float64))
    np.testing.assert_array_equal(scan.intrinsics("camera_depth"), meta["camera_depth_intrinsics"][:].astype(np.float64))
    np.testing.assert_array_equal(scan.intrinsics("camera_depth_confidence"), scan.intrinsics("camera_depth"))
    assert scan.intrinsics().shape == (60, 4) and scan.intrinsics().dtype == np.float64
    assert scan.intrinsics("pose") is None and scan.intrinsics("nothing") is None and ds[STACK].intrinsics() is None


def test_the_intrinsics_of_one_camera_are_not_anothers(whole, tmp_path):
    path = tmp_path / "two.h5"
    path.write_bytes((whole / f"episodes/{SCAN}.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        images = file["data/demo_0/obs"]
        for name, camera in ("wrist_image", "wrist"), ("top_image", "top"):
            images.copy("camera_image", name)
            images[name].attrs["camera"] = camera
        file["meta/demo_0/top_image_intrinsics"] = np.full((60, 4), 5, np.float32)
    with package.open(path) as ds:
        assert list(ds[0].cameras) == ["camera", "top", "wrist"] and ds[0].cameras["top"].image == "top_image"
        assert ds[0].intrinsics("wrist_image") is None and (ds[0].intrinsics("top_image") == 5).all() and ds[0].intrinsics() is not None


def test_cameras_have_their_streams_and_matrix(ds, whole):
    camera = ds[SCAN].cameras["camera"]
    assert (camera.image, camera.depth, camera.confidence) == ("camera_image", "camera_depth", "camera_depth_confidence")
    assert (camera.width, camera.height, camera.axes) == (96, 72, "x right, y down, z forward")
    info = json.loads(by_h5py(whole)[0][1].attrs["camera_info"])["camera_image"]
    np.testing.assert_array_equal(camera.matrix, info["intrinsics"])
    assert ds[STACK].cameras["camera"].matrix is None and ds[ARM].cameras["camera"].depth is None and list(ds[ARM].cameras) == ["camera"]


def test_the_inertial_sensors_have_their_own_times(ds, whole):
    for number in 0, 3:
        stored, imu = by_h5py(whole)[number][2]["imu"], ds[number].imu
        for mine, name in zip(imu, ("timestamp_ns", "accel", "gyro"), strict=True):
            np.testing.assert_array_equal(mine, stored[name][:])
        assert imu.accel.shape == (len(imu.times_ns), 3) != (60, 3)
    assert ds[STACK].imu is None


def test_importing_the_package_imports_no_large_package():
    code = "import sys, takeset; print(sorted({'torch', 'pandas', 'PIL', 'pyarrow', 'av', 'rerun', 'zarr'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python", capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_version_is_the_commands(takeset):
    assert takeset("--version", check=0).stdout.split()[1] == package.__version__
