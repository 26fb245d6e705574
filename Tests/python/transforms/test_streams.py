"""Streams that are selected or renamed, and takes that are too short."""

import json

import h5py
import numpy as np
import pytest
from outputs import check_digests, codes, demos, manifest, only
from phone_takes import absolute
from resample_oracle import even, steps, take, uneven
from scans import session as scan
from schemas import STATISTICS, layout, validator

ALL = {"pose", "camera_image", "camera_depth", "camera_depth_valid", "depth_point", "depth_point_valid", "joints", "joints_valid"}


def with_steps(takeset, root, found, *transforms, name="out", check=0):
    """The entry, demo and meta of a take after these steps."""
    if not (root / "s").exists():
        found.write(root / "s")
    takeset.convert(root / "s", output=root / name, arguments=steps(root, *transforms, name=f"{name}.yaml"), check=check)
    return only(root / name) if check == 0 else None


def plan_agrees(takeset, root, entry, name="out"):
    (planned,) = json.loads(takeset("plan", root / "s", "--json", "--pipeline", root / f"{name}.yaml", check=0).stdout)["takes"]
    assert planned["frames"] == entry["output"]["samples"] and layout(planned) == layout(entry["output"], without=STATISTICS)
    takeset("verify", root / name, "--inputs", check=0)
    takeset("pack", root / name, "--output", root / f"{name}.h5", check=0)
    takeset("verify", root / f"{name}.h5", check=0)


# Selecting


@pytest.mark.slow
def test_only_selected_streams_are_written(takeset, tmp_path):
    streams, expected = ["camera_depth", "joints"], {"camera_depth", "camera_depth_valid", "joints", "joints_valid"}
    found = uneven(40)
    _, whole, _ = with_steps(takeset, tmp_path, found, "align", name="whole")
    entry, demo, meta = with_steps(takeset, tmp_path, found, "align", {"select": {"streams": streams}})
    assert set(whole["obs"]) == ALL and set(demo["obs"]) == expected
    assert set(meta["streams"]) == set(streams)
    for name in expected:
        assert demo[f"obs/{name}"].attrs["sha256"] == whole[f"obs/{name}"].attrs["sha256"], name
    assert absolute(meta).tolist() == found.times and meta["source_index"][:].tolist() == found.numbers
    with h5py.File(tmp_path / "out/dataset.h5") as file:
        assert set(file["stats"]) == set(streams)
    assert "joints_raw" in meta
    check_digests(demo, meta)
    plan_agrees(takeset, tmp_path, entry)


# Renaming


def test_renamed_streams_are_the_same_by_another_name(takeset, tmp_path):
    found = uneven(40)
    names = {"camera_image": "wrist_image", "joints": "hand", "camera_depth": "wrist_depth", "pose": "wrist"}
    _, whole, every = with_steps(takeset, tmp_path, found, "align", name="whole")
    entry, demo, meta = with_steps(takeset, tmp_path, found, "align", {"rename": {"streams": names}})
    masks = {f"{old}_valid": f"{new}_valid" for old, new in names.items()}
    assert set(demo["obs"]) == {(names | masks).get(name, name) for name in ALL}
    for name in ALL:
        new = (names | masks).get(name, name)
        assert demo[f"obs/{new}"].attrs["sha256"] == whole[f"obs/{name}"].attrs["sha256"], name
        assert {k for k in demo[f"obs/{new}"].attrs} == {k for k in whole[f"obs/{name}"].attrs}, name
    for old in every["streams"]:
        for name, data in every[f"streams/{old}"].items():
            assert np.array_equal(meta[f"streams/{names.get(old, old)}/{name}"][:], data[:]), (old, name)
    assert len(meta["streams"]) == len(every["streams"])
    assert set(meta["row_sha256"]) == {"wrist_image", "wrist_depth", "wrist_depth_valid"}
    with h5py.File(tmp_path / "out/dataset.h5") as file, h5py.File(tmp_path / "whole/dataset.h5") as other:
        assert set(file["stats"]) == {names.get(name, name) for name in other["stats"]}
        for name in other["stats"]:
            assert np.array_equal(file[f"stats/{names.get(name, name)}/mean"][:], other[f"stats/{name}/mean"][:], equal_nan=True), name
    plan_agrees(takeset, tmp_path, entry)
    assert "nothing to do" in takeset.convert(tmp_path / "s", output=tmp_path / "out", arguments=["--pipeline", tmp_path / "out.yaml"]).stdout


def test_a_renamed_image_is_resized_with_its_intrinsics(takeset, tmp_path):
    scan(times="time").write(tmp_path / "s")
    resize = {"resize-image": {"width": 80, "height": 60}}
    _, whole, every = with_steps(takeset, tmp_path, None, "align", resize, name="whole")
    _, demo, meta = with_steps(takeset, tmp_path, None, "align", {"rename": {"streams": {"camera_image": "wrist_image"}}}, resize)
    assert np.array_equal(demo["obs/wrist_image"][:], whole["obs/camera_image"][:])
    stored = [name for name in meta if name.endswith("intrinsics")]
    assert any(np.array_equal(meta[name][:], every["intrinsics"][:]) for name in stored), stored
    assert demo["obs/wrist_image"].attrs["camera"] == whole["obs/camera_image"].attrs["camera"]


# Short takes


def test_takes_with_fewer_frames_are_rejected(takeset, tmp_path):
    for count in 17, 18, 19:
        take(even(count)).write(tmp_path / f"in/t{count}")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=steps(tmp_path, "align", {"min-frames": {"count": 18}}))
    document = manifest(tmp_path / "out")
    entries = {entry["id"]: entry for entry in document["record"]["takes"]}
    assert {name: entry["outcome"] for name, entry in entries.items()} == {"t17": "rejected", "t18": "written", "t19": "written"}
    assert entries["t17"]["reason"] and not codes(entries["t17"], "error") and entries["t17"]["output"] is None
    assert sorted(demos(tmp_path / "out")) == ["t18", "t19"]
    totals = document["record"]["totals"]
    assert (totals["frames_in"], totals["frames_out"], totals["frames_dropped"], totals["rejected"]) == (54, 37, 17, 1)
    validator("manifest.schema.json").validate(document)
