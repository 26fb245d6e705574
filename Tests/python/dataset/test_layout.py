"""The files as an outside reader sees them: every dataset, attribute and rule of docs/layout.md, by h5py."""

import json
import re

import h5py
import numpy as np
from outputs import ROWS, arrays, demos, manifest

EVERY_STREAM = {"camera_depth", "camera_image", "pose"}, {"camera_image", "depth_point", "joints", "pose"}


def all_datasets(group):
    found = []
    group.visititems(lambda name, item: found.append((name, item)) if isinstance(item, h5py.Dataset) else None)
    return found


def test_root_says_what_wrote_it(dataset):
    with h5py.File(dataset / "dataset.h5") as f:
        assert f.attrs["format"] == "takeset"
        assert f.attrs["format_version"] == "2.0.0" and re.fullmatch(r"\d+\.\d+\.\d+", f.attrs["tool_version"])
        assert f.attrs["pipeline_sha256"] == manifest(dataset)["record"]["pipeline_sha256"]


def test_holds_the_rules_of_robomimic_style_readers(dataset):
    files = [dataset / "dataset.h5", *sorted((dataset / "episodes").iterdir())]
    assert len(files) == 3
    for path in files:
        with h5py.File(path) as f:
            names = list(f["data"])
            assert all(re.fullmatch(r"demo_\d+", name) for name in names)
            assert f["data"].attrs["total"] == sum(f["data"][n].attrs["num_samples"] for n in names)
            arguments = json.loads(f["data"].attrs["env_args"])
            assert arguments["env_kwargs"] == {} and arguments["type"] == 2 and arguments["env_name"] == "stack-session"
            for name in names:
                demo = f["data"][name]
                count = demo.attrs["num_samples"]
                assert isinstance(demo["obs"], h5py.Group)
                assert all(len(d) == count for _, d in all_datasets(demo["obs"]))


def test_demos_are_numbered_from_0_in_the_order_of_take_ids(dataset):
    with h5py.File(dataset / "dataset.h5") as f:
        assert list(f["data"]) == list(f["meta"]) == ["demo_000000", "demo_000001"]
        ids = [demo.attrs["take_id"] for demo in f["data"].values()]
        assert ids == sorted(ids)
        link = f["data"].get("demo_000001", getlink=True)
        assert isinstance(link, h5py.ExternalLink)
        assert link.filename == f"episodes/{ids[1]}.h5" and link.path == "/data/demo_0"


def test_masks_are_fixed_length_bytes_that_divide_the_demos(dataset):
    with h5py.File(dataset / "dataset.h5") as f:
        masks = {name: list(f["mask"][name][:]) for name in f["mask"]}
        assert set(masks) == {"train", "valid", "test"}
        for mask in f["mask"].values():
            assert mask.dtype.kind == "S"
        assert sorted(masks["train"] + masks["valid"] + masks["test"]) == [n.encode() for n in f["data"]]
        assert len(masks["train"]) == 1 and len(masks["valid"]) == 1
        splits = manifest(dataset)["record"]["splits"]
        assert [f["data"][n.decode()].attrs["take_id"] for n in masks["valid"]] == splits["valid"]


def test_every_dataset_of_v1_and_v2_has_its_shape_type_and_unit(dataset):
    (v1, meta1), (v2, meta2) = demos(dataset).values()
    expected = {
        "pose": ("<f4", (7,)), "camera_image": ("|u1", (240, 320, 3)), "camera_depth": ("<f4", (48, 64, 1)),
        "camera_depth_valid": ("|u1", (48, 64, 1)), "joints": ("<f4", (4,)), "joints_valid": ("|u1", (4,)),
        "depth_point": ("<f4", (1,)), "depth_point_valid": ("|u1", (1,)),
    }
    parts = {"relative_position": ("<f4", (3,)), "relative_rotation_6d": ("<f4", (6,))}
    others = {"actions": ("<f4", (9,)), "actions_valid": ("|u1", ()), "rewards": ("<f4", ()), "dones": ("|i1", ())}
    described = {"timestamp_ns", "source_index", "quality", "gaps", "streams", "row_sha256", "chunk_crc32", "statistics", "action_dict"}
    assert set(v1["obs"]) == {"pose", "camera_image", "camera_depth", "camera_depth_valid"}
    assert set(v2["obs"]) == {"pose", "camera_image", "joints", "joints_valid", "depth_point", "depth_point_valid"}
    for demo in v1, v2:
        for name, data in demo["obs"].items():
            assert (data.dtype.str, data.shape[1:]) == expected[name], name
    assert set(meta1) == described and set(meta2) == described | {"joints_raw"}
    for demo, meta, joints, streams in (v1, meta1, {}, EVERY_STREAM[0]), (v2, meta2, {"joints": ("<f4", (4,))}, EVERY_STREAM[1]):
        count = demo.attrs["num_samples"]
        assert set(demo) == {"obs", "action_dict", *others}
        assert {n: (d.dtype.str, d.shape[1:]) for n, d in demo["action_dict"].items()} == parts | joints
        assert {n: (d.dtype.str, d.shape[1:]) for n, d in demo.items() if n in others} == others
        masks = {f"{name}_valid": ("|u1", (count,)) for name in parts | joints}
        assert {n: (d.dtype.str, d.shape) for n, d in meta["action_dict"].items()} == masks
        assert {len(d) for _, d in all_datasets(demo)} == {count}
        assert dict(meta["timestamp_ns"].attrs)["timeline"] == "source"
        assert meta["timestamp_ns"].dtype == meta["source_index"].dtype == np.int64
        assert meta["gaps"].shape == (0, 2) and meta["gaps"].dtype == np.int64
        assert set(meta["streams"]) == streams
        for stream in meta["streams"].values():
            assert {n: (d.dtype.str, d.shape) for n, d in stream.items()} == {
                "dt_ns": ("<i8", (count,)), "source_index": ("<i8", (count,)), "next_index": ("<i8", (count,)),
                "weight": ("<f4", (count,)), "valid": ("|u1", (count,)),
            }
            # Nothing was interpolated here: each value is one sample's.
            assert (stream["next_index"][:] == stream["source_index"][:]).all() and not stream["weight"][:].any()
        assert "intrinsics" not in meta  # neither variant has them, and none are synthesized


def test_pose_attributes_say_convention_axes_and_unit(dataset):
    for demo, _ in demos(dataset).values():
        attributes = dict(demo["obs/pose"].attrs)
        assert attributes["transform"] == "camera_to_world"
        assert attributes["camera_axes"] == "x right, y up, z back"
        assert attributes["quaternion_order"] == "xyzw"
        assert attributes["unit"] == "m"
        assert attributes["world_axes"]


def test_every_dataset_says_its_unit_and_every_stream_its_kind(dataset):
    kinds = {"pose": "pose", "camera_image": "image", "camera_depth": "depth", "joints": "angles", "depth_point": "vector"}
    for demo, meta in demos(dataset).values():
        assert all(data.attrs["unit"] for _, data in [*all_datasets(demo), *all_datasets(meta)])
        for name, data in demo["obs"].items():
            assert data.attrs.get("kind") == kinds.get(name), name
            assert data.attrs.get("camera") == ("camera" if name in ("camera_image", "camera_depth") else None), name
            assert "camera_size" not in data.attrs and "raster_from_camera" not in data.attrs  # their intrinsics are not known


def test_uses_only_filters_that_every_h5py_has(dataset):
    for demo, meta in demos(dataset).values():
        for name, data in [*all_datasets(demo), *all_datasets(meta)]:
            if name.endswith("camera_image"):
                assert data.compression is None and not data.shuffle
            elif data.chunks:
                assert data.compression == "gzip" and data.compression_opts == (1 if name == "statistics" else 4)
                assert data.shuffle == (data.dtype.itemsize > 1), name
            assert not data.fletcher32 and data.scaleoffset is None
        assert demo["obs/camera_image"].chunks[0] == 1


def storage(data):
    """How a dataset is stored, and its chunks."""
    words = {h5py.h5d.COMPACT: "compact", h5py.h5d.CONTIGUOUS: "contiguous", h5py.h5d.CHUNKED: "chunked"}
    return words[data.id.get_create_plist().get_layout()], data.chunks


def test_small_arrays_are_compact_and_long_ones_in_chunks(dataset, takeset, tmp_path):
    session = takeset.simulate(tmp_path / "long", "--variant", "v2", "--seconds", 18, "--size", "32x24")
    takeset.convert(session, output=tmp_path / "out")
    long, meta = demos(tmp_path / "out")["long"]
    assert storage(long["obs/pose"]) == ("chunked", (1024, 7)) and storage(meta["timestamp_ns"]) == ("chunked", (1024,))
    assert storage(long["obs/joints_valid"]) == ("compact", None)  # 1080 rows of 4 bytes
    shapes = {d["path"]: (d["chunk"], d["filters"]) for d in manifest(tmp_path / "out")["record"]["takes"][0]["output"]["datasets"]}
    assert shapes["/data/demo_0/obs/pose"] == ([1024, 7], ["shuffle", "deflate 4"])
    assert shapes["/data/demo_0/obs/joints_valid"] == (None, [])
    for demo, meta in [*demos(dataset).values(), (long, meta)]:
        for path, data in arrays(demo, meta).items():
            if path.rpartition("/")[2] in ROWS:
                expected = "chunked", (1, *data.shape[1:])
            elif data.nbytes <= 8192:
                expected = "compact" if data.size else "contiguous", None  # what is empty is nowhere
            elif path.endswith("/statistics"):
                expected = "chunked", data.shape
            elif path.endswith("/chunk_crc32"):
                expected = "contiguous", None
            else:
                expected = "chunked", (1024, *data.shape[1:])
            assert storage(data) == expected, path


def test_masks_off_means_nan_for_numbers_and_0_for_depth(dataset):
    demo, meta = next((d, m) for d, m in demos(dataset).values() if "joints" in d["obs"])
    for name in "joints", "depth_point":
        assert np.array_equal(np.isfinite(demo["obs"][name][:]), demo["obs"][name + "_valid"][:] == 1)
    demo, _ = next((d, m) for d, m in demos(dataset).values() if "camera_depth" in d["obs"])
    assert np.array_equal(demo["obs/camera_depth"][:] > 0, demo["obs/camera_depth_valid"][:] == 1)


def test_a_pack_holds_the_same_arrays_in_one_file(dataset, takeset, tmp_path):
    packed = tmp_path / "packed.h5"
    takeset("pack", dataset, "--output", packed, check=0)
    assert takeset("pack", dataset, "--output", packed).returncode == 64  # never overwrites
    with h5py.File(dataset / "dataset.h5") as f, h5py.File(packed) as p:
        assert dict(p["data"].attrs) == dict(f["data"].attrs) and dict(p.attrs) == dict(f.attrs)
        for section in "data", "meta":
            for name in f[section]:
                assert not isinstance(p[section].get(name, getlink=True), h5py.ExternalLink)
                for path, data in all_datasets(f[section][name]):
                    assert np.array_equal(data[:], p[section][name][path][:], equal_nan=data.dtype.kind == "f"), path
        for name in "train", "valid", "test":
            assert np.array_equal(f["mask"][name][:], p["mask"][name][:])
    takeset("verify", packed, check=0)
