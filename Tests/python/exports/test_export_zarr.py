"""Replay buffers in Zarr: their arrays by hand and by the zarr library, keys, episodes that end at incomplete rows."""

import zipfile

import numpy as np
import pytest
from export_checks import dead_joint, incomplete_takes, refuses, with_side_camera
from geometry_oracle import Runs
from outputs import demos
from scene_oracle import export, lost, record
from stack_sessions import v1, v2
from videos import video_file
from zarr_oracle import Store, check_replay_buffer


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    """Two sessions with depth maps, one with a glove."""
    found = Runs(takeset, tmp_path_factory.mktemp("zarr"), {"glove": v2(), "phone": v1()})
    takeset.simulate(found.inputs / "room", "--seconds", 0.4, "--size", "96x72", "--depth-size", "64x48")
    return found


@pytest.fixture(scope="module")
def dataset(runs):
    return runs.output({"actions": {"joints": "none"}})


def joined(dataset, takes, key, last=True):
    """The rows of takes, the last of each only where no action has to follow it."""
    return np.concatenate([demos(dataset)[take][0][key][: None if last else -1] for take in takes])


def episodes(output):
    return [(e["take"], e["first_row"], e["rows"]) for e in record(output)["replay_episodes"]]


# The arrays


@pytest.mark.parametrize("zip", [False, True])
def test_it_holds_every_key_of_the_dataset(dataset, takeset, tmp_path, zip):
    export(takeset, dataset, "zarr", tmp_path / "out", "--episodes", "phone,room", *["--zip"] * zip)
    data, ends = check_replay_buffer(Store(tmp_path / "out/replay_buffer.zarr.zip" if zip else tmp_path / "out"))
    assert ends.tolist() == [39, 62]
    assert set(data) == set(demos(dataset)["room"][0]["obs"]) | {"action"} and len(data) == 5
    for key, found in data.items():
        expected = joined(dataset, ["phone", "room"], "actions" if key == "action" else f"obs/{key}", last=False)
        assert found.dtype == expected.dtype and np.array_equal(found, expected), key
    assert data["camera_image"].std() > 10 and data["camera_depth"].max() > 1 and np.abs(data["action"]).max() > 0.5
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == (
        ["replay_buffer.zarr.zip", "takeset-export.json"] if zip else [".zgroup", "data", "meta", "takeset-export.json"])


@pytest.mark.parametrize("level", [None, 0, 9])
def test_chunks_and_compressor(dataset, takeset, tmp_path, level):
    export(takeset, dataset, "zarr", tmp_path / "out", "--episodes", "phone,room", *([] if level is None else ["--compression", level]))
    store = Store(tmp_path / "out")
    for name in store.names:
        layout = store.json(f"{name}/.zarray")
        pixels = name.startswith("data/camera_")
        row = int(np.prod(layout["shape"][1:])) * np.dtype(layout["dtype"]).itemsize
        # A chunk of numbers has about 2 MB, at most all rows.
        rows = len(store[name]) if name.startswith("meta") else min(62, -(-2_000_000 // row))
        assert layout["chunks"][0] == (1 if pixels else rows)
        bare = level == 0 or name == "meta/episode_ends"
        assert layout["compressor"] == (None if bare else {"id": "zlib", "level": level or 1})
    assert store.json("data/camera_depth/.zattrs")["unit"] == "m"
    assert store.json("data/action/.zattrs")["parts"] == "relative_position:3 relative_rotation_6d:6"
    assert store.json("data/pose/.zattrs") == {"unit": "m", "camera_axes": "x right, y up, z back", "quaternion_order": "xyzw"}


@pytest.mark.parametrize("options", [[], ["--zip"], ["--compression", 0]])
def test_the_zarr_library_reads_it(dataset, takeset, tmp_path, options):
    zarr = pytest.importorskip("zarr")
    export(takeset, dataset, "zarr", tmp_path / "out", "--episodes", "phone,room", *options)
    path = tmp_path / "out/replay_buffer.zarr.zip" if "--zip" in options else tmp_path / "out"
    store = zarr.ZipStore(str(path), mode="r") if path.is_file() else zarr.DirectoryStore(str(path))
    by_hand = Store(path)
    root = zarr.group(store)
    assert set(root.group_keys()) == {"data", "meta"} and len(root["data"]) == 5
    for name in by_hand.names:
        assert np.array_equal(root[name][:], by_hand[name]) and root[name].chunks == tuple(by_hand.json(f"{name}/.zarray")["chunks"])
    # ReplayBuffer.copy_from_store copies chunks as they are.
    memory = zarr.MemoryStore()
    zarr.group(store=memory)
    for part in "data", "meta":
        zarr.copy_store(store, memory, source_path=f"/{part}", dest_path=f"/{part}")
    copy = zarr.group(store=memory)
    assert np.array_equal(copy["data/camera_image"][17], by_hand["data/camera_image"][17]) and copy["meta/episode_ends"][-1] == 62


@pytest.mark.parametrize("encoding", ["png", "jpeg"])
def test_encoded_images_are_decoded(runs, takeset, tmp_path, encoding):
    other = runs.output({"resize-image": {"width": 64, "height": 48}}, writer={"image": encoding})
    export(takeset, other, "zarr", tmp_path / "out", "--keys", "camera_image")
    found = Store(tmp_path / "out")["data/camera_image"]
    raw = joined(runs.output({"resize-image": {"width": 64, "height": 48}}), ["glove", "phone", "room"], "obs/camera_image")
    difference = np.abs(found.astype(int) - raw)
    assert found.shape == (104, 48, 64, 3) and (difference.max() == 0 if encoding == "png" else difference.mean() < 2)


def test_depth_in_millimeters(runs, takeset, tmp_path):
    other = runs.output({"resample-depth": {"unit": "mm"}})
    export(takeset, other, "zarr", tmp_path / "out", "--episodes", "phone,room")
    store = Store(tmp_path / "out")
    assert store["data/camera_depth"].dtype == np.uint16 and store.json("data/camera_depth/.zattrs")["unit"] == "mm"
    for key in "camera_depth", "camera_depth_valid":
        assert np.array_equal(store[f"data/{key}"], joined(other, ["phone", "room"], f"obs/{key}"))


def test_several_cameras(dataset, takeset, tmp_path):
    export(takeset, with_side_camera(dataset, tmp_path / "set"), "zarr", tmp_path / "out")
    data, _ = check_replay_buffer(Store(tmp_path / "out"))
    assert np.array_equal(data["side_image"], 255 - joined(dataset, ["glove", "phone", "room"], "obs/camera_image", last=False))


# Keys


def test_keys_that_a_take_lacks_are_left_out_and_named(dataset, takeset, tmp_path):
    export(takeset, dataset, "zarr", tmp_path / "out")
    data, ends = check_replay_buffer(Store(tmp_path / "out"))
    assert set(data) == {"pose", "camera_image", "action"} and ends.tolist() == [39, 78, 101]
    sentences = record(tmp_path / "out")["lost"]
    assert "camera_depth is left out, because some episodes lack it: glove." in sentences
    assert "joints is left out, because some episodes lack it: phone, room." in sentences
    assert any("action_dict/relative_position" in s for s in sentences) and any("no times" in s for s in sentences)
    assert episodes(tmp_path / "out") == [("glove", 0, 39), ("phone", 0, 39), ("room", 0, 23)]


def test_keys_can_be_chosen(dataset, takeset, tmp_path):
    export(takeset, dataset, "zarr", tmp_path / "out", "--keys", "joints, action,pose", "--episodes", "glove")
    data, _ = check_replay_buffer(Store(tmp_path / "out"))
    assert set(data) == {"joints", "joints_valid", "action", "pose"} and data["joints_valid"].all()
    assert "--keys leaves out camera_image, depth_point." in record(tmp_path / "out")["lost"]
    sentence = refuses(takeset, dataset, "zarr", tmp_path / "other", "--keys", "camera_depth")
    assert "camera_depth" in sentence and "glove" in sentence and "phone" not in sentence
    sentence = refuses(takeset, dataset, "zarr", tmp_path / "other", "--keys", "camera", code=64)
    assert "no episode has camera" in sentence and "camera_depth, camera_image" in sentence


def test_a_dataset_without_actions_says_so(runs, takeset, tmp_path):
    export(takeset, runs.output(), "zarr", tmp_path / "out")
    assert "action" not in check_replay_buffer(Store(tmp_path / "out"))[0]
    assert any("no data/action" in sentence for sentence in record(tmp_path / "out")["lost"])


# Incomplete rows


def complete(demo, meta, *keys):
    """Whether each row has all of these."""
    masks = {"action": lambda: demo["actions_valid"][:], "joints": lambda: demo["obs/joints_valid"][:].all(1)}
    return np.logical_and.reduce([masks.get(key, lambda key=key: meta[f"streams/{key}/valid"][:])() for key in keys])


def test_incomplete_rows_end_an_episode_and_are_counted(takeset, tmp_path):
    dataset = incomplete_takes(takeset, tmp_path / "takes").output({"actions": {"joints": "absolute"}})
    export(takeset, dataset, "zarr", tmp_path / "out")
    data, ends = check_replay_buffer(Store(tmp_path / "out"))
    kept, lengths, dropped = {}, [], {}
    for take, (demo, meta) in demos(dataset).items():
        rows = complete(demo, meta, "action", "joints", "camera_image", "depth_point")
        edges = np.flatnonzero(np.diff(np.concatenate([[0], rows, [0]]))).reshape(-1, 2)
        kept[take], dropped[take] = np.flatnonzero(rows), int((~rows).sum())
        lengths += [(take, int(first), int(end - first)) for first, end in edges]
    assert len(lengths) == 7 and dropped["whole"] == 1 and all(dropped[take] for take in ("late", "cut", "blind"))
    assert ends.tolist() == np.cumsum([count for _, _, count in lengths]).tolist()
    found = record(tmp_path / "out")
    assert episodes(tmp_path / "out") == lengths
    assert found["masked_rows"] == sum(dropped.values()) and set(found["masked"]) == {"late", "cut", "blind", "whole"}
    assert found["masked"]["blind"]["camera_image"] == 3 and found["masked"]["whole"] == {"no-next-row": 1} and all(lost(tmp_path / "out", take) for take in found["masked"])
    for key, array in data.items():
        path = "actions" if key == "action" else f"obs/{key}"
        assert np.array_equal(array, np.concatenate([demos(dataset)[take][0][path][:][kept[take]] for take in demos(dataset)])), key
        assert np.isfinite(array.astype(float)).all()


def test_a_gap_ends_an_episode_without_actions_too(takeset, tmp_path):
    dataset = incomplete_takes(takeset, tmp_path / "takes").output()
    export(takeset, dataset, "zarr", tmp_path / "out", "--keys", "pose", "--episodes", "cut,whole")
    data, ends = check_replay_buffer(Store(tmp_path / "out"))
    assert ends.tolist() == [17, 36, 76] and np.array_equal(data["pose"], joined(dataset, ["cut", "whole"], "obs/pose"))
    assert record(tmp_path / "out")["masked_rows"] == 0 and demos(dataset)["cut"][1]["gaps"][:, 0].tolist() == [16]


def test_rows_without_a_depth_map_are_incomplete(takeset, tmp_path):
    found = v1()
    for index in range(4):
        del found.depth[index]
    dataset = Runs(takeset, tmp_path / "takes", {"phone": found}).output()
    demo, meta = demos(dataset)["phone"]
    rows = complete(demo, meta, "camera_depth")
    assert 0 < (~rows).sum() < 20
    export(takeset, dataset, "zarr", tmp_path / "out")
    data, _ = check_replay_buffer(Store(tmp_path / "out"))
    assert np.array_equal(data["camera_depth"], demo["obs/camera_depth"][:][rows])
    assert record(tmp_path / "out")["masked"] == {"phone": {"camera_depth": int((~rows).sum())}}
    export(takeset, dataset, "zarr", tmp_path / "images", "--keys", "camera_image,pose")
    assert record(tmp_path / "images")["masked_rows"] == 0


def test_takes_without_a_complete_row_are_refused(takeset, tmp_path):
    dataset = Runs(takeset, tmp_path / "takes", {"dead": dead_joint()}).output()
    sentence = refuses(takeset, dataset, "zarr", tmp_path / "out")
    assert "dead: joints missing in 40 of 40 rows" in sentence
    export(takeset, dataset, "zarr", tmp_path / "out", "--keys", "pose,camera_image")


# What it refuses


def test_takes_of_different_sizes_are_refused_by_name(runs, takeset, tmp_path):
    takes = Runs(takeset, tmp_path / "takes", {"small": v2(), "pour.mov": video_file(count=6)})
    takeset.simulate(takes.inputs / "scan", "--seconds", 0.2, "--size", "128x96", "--depth-size", "32x24")
    takeset.simulate(takes.inputs / "room", "--seconds", 0.2, "--size", "128x96", "--depth-size", "64x48")
    dataset = takes.output({"actions": {"joints": "absolute"}})
    sentence = refuses(takeset, dataset, "zarr", tmp_path / "out", "--episodes", "small,room", "--keys", "camera_image")
    assert sentence and "72x96x3 uint8 in small" in sentence and "96x128x3 uint8 in room" in sentence and "resize-image" in sentence
    sentence = refuses(takeset, dataset, "zarr", tmp_path / "out", "--episodes", "small,room", "--keys", "action")
    assert "13 float32 in small" in sentence and "9 float32 in room" in sentence and "joints: none" in sentence
    sentence = refuses(takeset, dataset, "zarr", tmp_path / "out", "--episodes", "scan,room", "--keys", "camera_depth")
    assert "24x32x1 float32 in scan" in sentence and "48x64x1 float32 in room" in sentence and "resample-depth" in sentence


# The output


def test_a_zip_has_nothing_of_its_time(dataset, takeset, tmp_path):
    export(takeset, dataset, "zarr", tmp_path / "out", "--zip")
    members = zipfile.ZipFile(tmp_path / "out/replay_buffer.zarr.zip").infolist()
    assert {m.date_time for m in members} == {(1980, 1, 1, 0, 0, 0)} and {m.external_attr >> 16 for m in members} == {0o100644}


@pytest.mark.slow
def test_many_rows_have_several_chunks_and_members(takeset, tmp_path):
    """More rows than a chunk of poses holds, and more members than a zip file without 64-bit records may have."""
    takes = Runs(takeset, tmp_path / "takes", {"a": v2(60), "b": v2(430)})
    dataset = takes.output({"crop": {"center": [2, 2]}}, {"resample": {"rate": 10000}}, {"select": {"streams": ["pose", "camera_image"]}})
    export(takeset, dataset, "zarr", tmp_path / "out", "--zip")
    store = Store(tmp_path / "out/replay_buffer.zarr.zip")
    data, ends = check_replay_buffer(store)
    assert ends[-1] > 72_000 and len(store.members) > 65_536 and store.json("data/pose/.zarray")["chunks"] == [71429, 7]
    for key, array in data.items():
        assert np.array_equal(array, joined(dataset, "ab", f"obs/{key}")), key
