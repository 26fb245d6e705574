"""Streams that are selected or renamed, takes that are too short, and frames that are blurred."""

import io
import json

import h5py
import numpy as np
import pytest
from conversions import converted
from outputs import check_digests, codes, demos, dropped, manifest, only, record
from PIL import Image, ImageFilter
from resample_oracle import absolute, accounts, depth_maps_are, even, steps, take, uneven
from scans import session as scan
from schemas import STATISTICS, layout, validator
from videos import video_file

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


@pytest.mark.parametrize("streams, expected", [
    (["pose"], {"pose"}), (["joints", "pose"], {"pose", "joints", "joints_valid"}), (["camera_image"], {"camera_image"}),
    (["camera_depth", "pose"], {"pose", "camera_depth", "camera_depth_valid"}), (["depth_point"], {"depth_point", "depth_point_valid"}),
])
def test_only_selected_streams_are_written(takeset, tmp_path, streams, expected):
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
    assert ("joints_raw" in meta) == ("joints" in streams)
    check_digests(demo, meta)
    plan_agrees(takeset, tmp_path, entry)


def test_confidence_is_a_stream_of_its_own(takeset, tmp_path):
    scan(times="time").write(tmp_path / "s")
    for streams, expected in [
        (["camera_depth"], {"camera_depth", "camera_depth_valid"}), (["camera_depth_confidence"], {"camera_depth_confidence"}),
        (["camera_depth", "camera_depth_confidence"], {"camera_depth", "camera_depth_valid", "camera_depth_confidence"}),
    ]:
        _, demo, _ = with_steps(takeset, tmp_path, None, "align", {"select": {"streams": streams}}, name="-".join(streams))
        assert set(demo["obs"]) == expected


def test_intrinsics_of_selected_images_stay(takeset, tmp_path):
    scan(times="time").write(tmp_path / "s")
    _, _, whole = with_steps(takeset, tmp_path, None, "align", name="whole")
    _, demo, meta = with_steps(takeset, tmp_path, None, "align", {"select": {"streams": ["camera_image"]}})
    assert set(demo["obs"]) == {"camera_image"} and np.array_equal(meta["intrinsics"][:], whole["intrinsics"][:])
    assert "camera_depth_intrinsics" not in meta


def test_one_list_serves_takes_that_lack_a_stream(takeset, tmp_path):
    uneven(40).write(tmp_path / "in/with")
    take(even(30)).write(tmp_path / "in/without")
    arguments = steps(tmp_path, "align", {"select": {"streams": ["pose", "joints"]}})
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=arguments)
    assert {name: set(demo["obs"]) for name, (demo, _) in demos(tmp_path / "out").items()} == {
        "with": {"pose", "joints", "joints_valid"}, "without": {"pose"}}


def test_a_take_with_none_of_the_streams_is_not_written_empty(takeset, tmp_path):
    uneven(40).write(tmp_path / "in/session")
    (tmp_path / "in/pour.mov").write_bytes(video_file(count=10))
    arguments = steps(tmp_path, "align", {"select": {"streams": ["pose"]}})
    done = takeset("run", tmp_path / "in", "--output", tmp_path / "out", *arguments)
    assert done.returncode in (0, 3) and set(demos(tmp_path / "out")) == {"session"}
    (entry,) = [e for e in manifest(tmp_path / "out")["record"]["takes"] if e["id"] == "pour"]
    assert entry["outcome"] != "written" and "pose" in entry["reason"]


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


def test_a_renamed_pose_still_makes_actions(takeset, tmp_path):
    found = uneven(40)
    _, whole, _ = with_steps(takeset, tmp_path, found, "align", "actions", name="whole")
    _, demo, _ = with_steps(takeset, tmp_path, found, "align", {"rename": {"streams": {"pose": "wrist"}}}, "actions")
    assert np.array_equal(demo["actions"][:], whole["actions"][:]) and "wrist" in demo["obs"]


def test_a_renamed_image_is_resized_with_its_intrinsics(takeset, tmp_path):
    scan(times="time").write(tmp_path / "s")
    resize = {"resize-image": {"width": 80, "height": 60}}
    _, whole, every = with_steps(takeset, tmp_path, None, "align", resize, name="whole")
    _, demo, meta = with_steps(takeset, tmp_path, None, "align", {"rename": {"streams": {"camera_image": "wrist_image"}}}, resize)
    assert np.array_equal(demo["obs/wrist_image"][:], whole["obs/camera_image"][:])
    stored = [name for name in meta if name.endswith("intrinsics")]
    assert any(np.array_equal(meta[name][:], every["intrinsics"][:]) for name in stored), stored
    assert demo["obs/wrist_image"].attrs["camera"] == whole["obs/camera_image"].attrs["camera"]


@pytest.mark.parametrize("streams", [{"joints": "pose"}, {"camera_image": "camera_depth"}])
def test_a_name_that_a_take_has_already_is_not_taken_over(takeset, tmp_path, streams):
    uneven(40).write(tmp_path / "s")
    done = takeset("run", tmp_path / "s", "--output", tmp_path / "out", *steps(tmp_path, "align", {"rename": {"streams": streams}}))
    (new,) = streams.values()
    assert done.returncode in (3, 64) and new in done.stderr
    assert not list(tmp_path.glob("out/episodes/*.h5"))


def test_two_streams_can_swap_their_names_or_are_refused(takeset, tmp_path):
    """Never is one of them lost."""
    found = uneven(40)
    found.write(tmp_path / "s")
    swap = {"rename": {"streams": {"joints": "depth_point", "depth_point": "joints"}}}
    done = takeset("run", tmp_path / "s", "--output", tmp_path / "out", *steps(tmp_path, "align", swap))
    if done.returncode == 0:
        _, demo, _ = only(tmp_path / "out")
        assert demo["obs/depth_point"].shape == (38, 4) and demo["obs/joints"].shape == (38, 1)
    else:
        assert done.returncode in (3, 64) and not list(tmp_path.glob("out/episodes/*.h5"))


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


def test_frames_are_counted_where_the_step_is(takeset, tmp_path):
    """Of 30 frames, 10 are left after decimation."""
    short = {"min-frames": {"count": 11}}
    found = take(even(30))
    found.write(tmp_path / "s")
    few = {"decimate": {"every": 3}}
    for name, transforms, outcome in ("before", [short, few], "written"), ("after", [few, short], "rejected"):
        takeset.convert(tmp_path / "s", output=tmp_path / name, arguments=steps(tmp_path, "align", *transforms))
        assert record(tmp_path / name)["outcome"] == outcome


# Blurred images


def laplacian_variance(image):
    """Of the luma, rounded half up, with the border reflected without repeating it."""
    red, green, blue = np.moveaxis(image.astype(np.int64), -1, 0)
    luma = np.pad((299 * red + 587 * green + 114 * blue + 500) // 1000, 1, "reflect")
    middle = luma[1:-1, 1:-1]
    return (luma[:-2, 1:-1] + luma[2:, 1:-1] + luma[1:-1, :-2] + luma[1:-1, 2:] - 4 * middle).astype("f8").var()


class Blurred:
    """A take whose images are blurred more or less."""

    def __init__(self, radii):
        self.take = take(even(len(radii)), with_depth=list(range(len(radii))))
        self.session = self.take.session()
        noise = np.random.default_rng(6).integers(0, 256, (72, 96, 3), np.uint8)
        for number, radius in enumerate(radii):
            buffer = io.BytesIO()
            Image.fromarray(noise).filter(ImageFilter.GaussianBlur(radius)).save(buffer, "JPEG", quality=90)
            self.session.rgb[number] = buffer.getvalue()

    def write(self, directory):
        return self.session.write(directory)


RADII = [0.5, 3, 0.2, 1, 8, 0, 2, 1.5, 5, 0.7, 0.3, 4]


@pytest.mark.parametrize("before", [[], [{"resize-image": {"width": 48, "height": 36}}], [{"decimate": {"every": 2}}]])
def test_images_of_little_variance_are_dropped(takeset, tmp_path, before):
    """As of the images that the same pipeline stores without the step."""
    found = Blurred(RADII)
    _, whole, every = with_steps(takeset, tmp_path, found, "align", *before, name="whole")
    sharpness = np.array([laplacian_variance(image) for image in whole["obs/camera_image"][:]])
    ordered = np.sort(sharpness)
    for rank in 1, len(ordered) // 2, len(ordered) - 1:
        limit = float((ordered[rank - 1] + ordered[rank]) / 2)
        kept = np.flatnonzero(sharpness >= limit)
        assert len(kept) == len(ordered) - rank
        entry, demo, meta = with_steps(takeset, tmp_path, found, "align", *before, {"drop-frames": {"blur": limit}}, name=f"out{rank}")
        assert meta["source_index"][:].tolist() == every["source_index"][:][kept].tolist()
        assert np.array_equal(demo["obs/camera_image"][:], whole["obs/camera_image"][:][kept])
        assert dropped(entry).get("blurred") == rank and accounts(entry)["drop-frames"]["frames_out"] == len(kept)
        depth_maps_are(demo, every["streams/camera_depth/source_index"][:][kept])
        plan_agrees(takeset, tmp_path, entry, name=f"out{rank}")


@pytest.mark.parametrize("share", [1 - 1e-9, 1 + 1e-9])
def test_the_limit_is_exact(takeset, tmp_path, share):
    found = Blurred(RADII)
    _, whole, _ = with_steps(takeset, tmp_path, found, "align", name="whole")
    sharpness = np.array([laplacian_variance(image) for image in whole["obs/camera_image"][:]])
    limit = float(np.sort(sharpness)[6] * share)
    entry, _, _ = with_steps(takeset, tmp_path, found, "align", {"drop-frames": {"blur": limit}})
    assert dropped(entry) == {"blurred": int((sharpness < limit).sum())} == {"blurred": 6 if share < 1 else 7}


def test_blur_is_one_reason_among_others(takeset, tmp_path):
    """A frame that two reasons concern is dropped once."""
    found = Blurred(RADII)
    entries = json.loads(found.session.poses)
    for index in 4, 5:  # the pose of 4 again: both are repeated
        entries[index]["transform"] = entries[3]["transform"]
    found.session.poses = json.dumps(entries)
    _, whole, _ = with_steps(takeset, tmp_path, found, "align", name="whole")
    sharpness = np.array([laplacian_variance(image) for image in whole["obs/camera_image"][:]])
    limit = float(np.sort(sharpness)[4:6].mean())
    entry, _, meta = with_steps(takeset, tmp_path, found, "align", {"drop-frames": {"with": ["pose-repeated"], "blur": limit}})
    expected = [k for k in range(12) if k not in (3, 4, 5) and sharpness[k] >= limit]
    assert meta["source_index"][:].tolist() == expected
    assert sum(dropped(entry).values()) == 12 - len(expected) and set(dropped(entry)) == {"pose-repeated", "blurred"}


def test_a_videos_images_are_measured(takeset, tmp_path):
    (tmp_path / "s.mov").write_bytes(video_file(count=20, b_frames=2))
    _, whole, _ = converted(takeset, tmp_path / "s.mov", steps(tmp_path, "align"))
    sharpness = np.array([laplacian_variance(image) for image in whole["obs/camera_image"][:]])
    kept = np.flatnonzero(sharpness >= np.median(sharpness))
    assert len(kept) == 10
    for jobs in 1, 3:
        arguments = steps(tmp_path, "align", {"drop-frames": {"blur": float(np.median(sharpness))}})
        takeset.convert(tmp_path / "s.mov", output=tmp_path / f"out{jobs}", arguments=[*arguments, "--jobs", jobs])
        _, demo, meta = only(tmp_path / f"out{jobs}")
        assert meta["source_index"][:].tolist() == kept.tolist()
        assert np.array_equal(demo["obs/camera_image"][:], whole["obs/camera_image"][:][kept])


# Mistakes


@pytest.mark.parametrize("step, path", [
    ({"select": {}}, "select.streams"), ({"select": {"streams": []}}, "select.streams"), ({"select": {"streams": "pose"}}, "select.streams"),
    ({"select": {"stream": ["pose"]}}, "select.stream"), ({"rename": {}}, "rename.streams"), ({"rename": {"streams": {}}}, "rename.streams"),
    ({"rename": {"streams": {"joints": "a/b"}}}, "rename.streams"), ({"rename": {"streams": {"joints": ""}}}, "rename.streams"),
    ({"rename": {"streams": {"joints": "."}}}, "rename.streams"), ({"rename": {"streams": {"joints": ".."}}}, "rename.streams"),
    ({"rename": {"streams": {"joints": "hand\nx"}}}, "rename.streams"), ({"rename": {"streams": {"joints": 3}}}, "rename.streams"),
    ({"rename": {"streams": {"joints": "x", "pose": "x"}}}, "rename.streams"), ({"rename": {"streams": ["joints"]}}, "rename.streams"),
    ({"rename": {"streams": {"joints": "camera_image_valid"}}}, "rename.streams"),
    ({"min-frames": {}}, "min-frames.count"), ({"min-frames": {"count": 0}}, "min-frames.count"), ({"min-frames": {"count": -1}}, "min-frames.count"),
    ({"min-frames": {"count": 1.5}}, "min-frames.count"), ({"min-frames": {"frames": 3}}, "min-frames.frames"),
    ({"drop-frames": {}}, "drop-frames"), ({"drop-frames": {"blur": -1}}, "drop-frames.blur"),
    ({"drop-frames": {"blur": "much"}}, "drop-frames.blur"),
])
def test_mistakes_are_refused_by_their_path(takeset, tmp_path, step, path):
    (tmp_path / "s").mkdir()
    arguments = steps(tmp_path, "align", step)
    for command in ["run", tmp_path / "s", "--output", tmp_path / "out"], ["plan", tmp_path / "s"]:
        done = takeset(*command, *arguments, check=64)
        assert f"transforms[1].{path}" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
