"""What exports have in common: whole outputs, the same for any number of threads; full disks, damaged datasets, takes that lack something, mistakes, memory."""

import pytest
from export_checks import check_each_write, check_full_disk, check_output, damaged, memory_of, refuses
from geometry_oracle import Runs, steps_file
from scans import session as scan
from scene_oracle import export, files, lost, read_ply, record
from stack_sessions import still, v2, v3_slam
from videos import video_file

# Options with which each format takes a dataset of a glove and two scans; the glove has no intrinsics and no depth maps.
SCENE = ["--episodes", "scan,short", "--points", 0.1]
FORMS = {
    "aloha": ["--fixed-length", "pad", "--qpos", "pose"], "colmap": SCENE, "kitti": [], "mcap": [], "nerfstudio": SCENE,
    "ply": ["--episodes", "scan,short", "--confidence", 0], "tum": [], "webdataset": [], "zarr": [],
}


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    """A session with a glove, and two scans with depth maps, confidence and intrinsics."""
    found = Runs(takeset, tmp_path_factory.mktemp("outputs"), {"glove": v2()})
    for name, seconds in ("scan", 0.5), ("short", 0.2):
        small = "--seconds", seconds, "--size", "240x180", "--depth-size", "80x60"
        takeset("simulate", "stray-scanner", "--output", found.inputs / name, *small, check=0)
    return found


def converted(runs, **writer):
    """The images have the size that UMI needs."""
    square = {"resize-image": {"width": 224, "height": 224, "mode": "cover"}}
    return runs.output(square, {"actions": {"joints": "none"}}, writer=writer)


@pytest.fixture(scope="module")
def dataset(runs):
    return converted(runs)


@pytest.fixture(scope="module")
def broken(runs, tmp_path_factory):
    return damaged(converted(runs, **{"image-compression": 6}), tmp_path_factory.mktemp("damaged") / "set", "scan")


@pytest.mark.parametrize("form, more", [
    *((form, []) for form in FORMS), ("webdataset", ["--image", "jpeg", "--shard-rows", 30]), ("zarr", ["--zip"]), ("zarr", ["--layout", "umi"]),
], ids=str)
def test_it_is_whole_and_the_same_for_any_number_of_threads(dataset, takeset, tmp_path, form, more):
    check_output(takeset, dataset, form, tmp_path, *FORMS[form], *more)


@pytest.mark.parametrize("form, more, limit", [
    ("aloha", [], 100_000), ("mcap", ["--image", "png"], 100_000), ("webdataset", [], 100_000), ("ply", ["--voxel", 0.0005, "--edge", 0], 100_000),
    ("zarr", ["--compression", 0], 15_000), ("zarr", ["--zip"], 15_000), ("colmap", [], 20_000), ("nerfstudio", [], 20_000),
], ids=str)
def test_a_full_disk_leaves_nothing(dataset, takeset, tmp_path, form, more, limit):
    check_full_disk(takeset, dataset, form, tmp_path, *FORMS[form], *more, limit=limit)


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("kitti", "tum")])
def test_a_damaged_dataset_is_named(broken, takeset, tmp_path, form):
    sentence = refuses(takeset, broken, form, tmp_path / "out", *FORMS[form])
    assert "row 7 of camera_image of scan cannot be read" in sentence and "takeset verify" in sentence


@pytest.mark.parametrize("form, arguments, words", [
    ("aloha", ["--fixed-length", "cut"], ["--fixed-length", "trim or pad", "cut"]), ("aloha", ["--masked", "keep"], ["--masked", "refuse, longest or split"]),
    ("aloha", ["--qpos", "hand"], ["--qpos", "hand", "depth_point, joints, pose"]), ("aloha", ["--zip"], ["--zip", "unknown option"]),
    ("aloha", ["--episodes", "d"], ["no episode d"]), ("aloha", ["--link=2"], ["--link", "true or false"]),
    ("mcap", ["--image", "gif"], ["--image"]),
    ("nerfstudio", ["--image", "gif"], ["image"]), ("nerfstudio", ["--quality", 0], ["quality"]), ("nerfstudio", ["--every", 0], ["every"]),
    ("nerfstudio", ["--points", 0], ["points"]), ("nerfstudio", ["--voxel", 1], ["voxel"]),
    ("ply", ["--voxel", 0], ["voxel"]), ("ply", ["--voxel", "fine"], ["voxel"]), ("ply", ["--confidence", 3], ["confidence"]),
    ("ply", ["--min-range", 2, "--range", 1], ["min-range"]), ("ply", ["--every", 0], ["every"]), ("ply", ["--edge", -1], ["edge"]),
    ("ply", ["--vowel", 1], ["voxel"]),
    ("tum", ["--voxel", 0.1], ["voxel", "tum"]), ("tum", ["--episodes", "scam"], ["scam", "did you mean scan?"]), ("tun", [], ["tun", "tum"]),
    ("webdataset", ["--image", "gif"], ["--image", "png or jpeg"]), ("webdataset", ["--quality", 0], ["--quality", "from 1 to 100"]),
    ("webdataset", ["--shard-rows", 0], ["--shard-rows"]), ("webdataset", ["--name", "a/b"], ["--name", "a/b"]), ("webdataset", ["--name", ""], ["--name"]),
    ("webdataset", ["--compression", 3], ["--compression", "unknown option"]),
    ("zarr", ["--compression", 10], ["--compression", "from 0 to 9"]), ("zarr", ["--layout", "um"], ["--layout", "diffusion-policy or umi"]),
    ("zarr", ["--gripper", "joints:0"], ["--gripper", "umi"]), ("zarr", ["--quality", 3], ["--quality", "unknown option"]),
    ("zarr", ["--layout", "umi", "--keys", "pose"], ["--keys", "umi"]),
    *(("zarr", ["--layout", "umi", "--episodes", "glove", "--gripper", name], words) for name, words in (
        ("claw", ["--gripper", "claw"]), ("camera_image", ["--gripper", "camera_image"]),
        ("joints", ["joints:0 to joints:3"]), ("joints:x", ["joints:0 to joints:3"]), ("joints:4", ["joints:0 to joints:3"]))),
], ids=str)
def test_mistakes_in_options(dataset, takeset, tmp_path, form, arguments, words):
    sentence = refuses(takeset, dataset, form, tmp_path / "out", *arguments, code=64)
    assert all(word in sentence for word in words), sentence


# Takes that lack something


@pytest.fixture(scope="module")
def lacking(takeset, tmp_path_factory):
    """A dataset of takes without intrinsics, without poses, with poses in a world of unknown scale, and with everything."""
    takes = {"bare": still(), "pour.mov": video_file(count=6), "slam": v3_slam(), "good": scan(times="time")}
    return Runs(takeset, tmp_path_factory.mktemp("lacking"), takes).output()


@pytest.mark.parametrize("form", ["colmap", "nerfstudio"])
def test_takes_that_scenes_cannot_hold_are_refused_by_name(lacking, takeset, tmp_path, form):
    done = export(takeset, lacking, form, tmp_path / "out", check=65)
    for words in "pour has no poses", "bare, pour have no intrinsics", "--where 'streams has pose and streams has intrinsics'":
        assert words in done.stderr, done.stderr
    assert "slam" not in done.stderr and "good" not in done.stderr and not (tmp_path / "out").exists()
    done = export(takeset, lacking, form, tmp_path / "out", "--episodes", "bare", check=65)
    assert "bare has no intrinsics" in done.stderr and "--where" not in done.stderr
    export(takeset, lacking, form, tmp_path / "out", "--episodes", "slam")
    assert any("arbitrary" in words for words in lost(tmp_path / "out", "slam"))
    done = export(takeset, lacking, form, tmp_path / "points", "--episodes", "slam", "--points", 0.1, check=65)
    assert "slam has no depth maps" in done.stderr and "meters" in done.stderr and not (tmp_path / "points").exists()


@pytest.mark.parametrize("form, condition", [
    ("colmap", "streams has pose and streams has intrinsics"), ("nerfstudio", "streams has pose and streams has intrinsics"),
    ("ply", "streams has camera_depth and streams has pose"),
])
def test_a_condition_chooses_the_takes_that_a_format_can_hold(lacking, takeset, tmp_path, form, condition):
    refused = export(takeset, lacking, form, tmp_path / "all", check=65).stderr
    assert form == "ply" or f"--where '{condition}'" in refused
    export(takeset, lacking, form, tmp_path / "out", "--where", condition, *(["--confidence", 0] if form == "ply" else []))
    assert [one["id"] for one in record(tmp_path / "out")["episodes"]] == (["good"] if form == "ply" else ["good", "slam"])
    # Both, as for select.
    export(takeset, lacking, form, tmp_path / "one", "--where", condition, "--episodes", "bare,good", *(["--confidence", 0] if form == "ply" else []))
    assert [one["id"] for one in record(tmp_path / "one")["episodes"]] == ["good"]


def test_conditions_that_choose_nothing_are_refused(lacking, takeset, tmp_path):
    for condition, more, code, words in [
        ("frames > 1000", [], 65, "no episode matches"), ("streams has pose", ["--episodes", "pour"], 65, "no episode of --episodes matches --where"),
        ("streams has intrinsic", [], 65, "did you mean intrinsics?"), ("intrinsics", [], 64, "did you mean streams has intrinsics?"),
        ("streams has pose", ["--episodes", "scam"], 64, "no episode scam"),
    ]:
        assert words in refuses(takeset, lacking, "tum", tmp_path / "out", "--where", condition, *more, code=code)


def test_takes_that_have_no_cloud_are_refused_by_name(lacking, takeset, tmp_path):
    done = export(takeset, lacking, "ply", tmp_path / "out", check=65)
    for words in "bare, pour, slam have no depth maps", "pour, slam have no poses in meters", "--episodes":
        assert words in done.stderr, done.stderr
    assert "good" not in done.stderr and not (tmp_path / "out").exists()
    export(takeset, lacking, "ply", tmp_path / "out", "--episodes", "good", "--confidence", 0)
    assert len(read_ply(tmp_path / "out/good.ply")) > 100


# Disks that are full at any one write


@pytest.fixture(scope="module")
def tiny(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("tiny")
    takeset.simulate(root / "in", "--variant", "v2", "--seconds", 0.05, "--size", "32x24")
    takeset.convert(root / "in", output=root / "set", arguments=steps_file(root, {"actions": {"kind": "absolute-quat", "joints": "absolute"}}))
    return root / "set"


@pytest.mark.slow
@pytest.mark.parametrize("form, options, writes", [
    ("aloha", [], 10), ("mcap", [], 10), ("webdataset", ["--shard-rows", 2], 10), ("zarr", [], 15), ("zarr", ["--zip"], 15),
])
def test_what_is_left_is_whole_or_nothing(takeset, failing_write, tiny, tmp_path, form, options, writes):
    assert check_each_write(takeset, failing_write, tiny, form, tmp_path, *options) > writes


# Memory


@pytest.fixture(scope="module")
def lengths(takeset, tmp_path_factory):
    """Datasets of a take of one second and of one of four."""
    root = tmp_path_factory.mktemp("lengths")
    arguments = steps_file(root, {"actions": {"kind": "absolute-quat", "joints": "absolute"}})
    for seconds in 1, 4:
        takeset.simulate(root / f"in{seconds}", "--variant", "v2", "--seconds", seconds, "--size", "480x360")
        takeset.convert(root / f"in{seconds}", output=root / f"set{seconds}", arguments=arguments)
    return root / "set1", root / "set4"


@pytest.mark.slow
@pytest.mark.parametrize("form, options, written", [("aloha", [], 120e6), ("webdataset", ["--image", "jpeg"], 10e6), ("zarr", ["--zip"], 30e6)])
def test_memory_does_not_grow_with_the_takes(lengths, tmp_path, form, options, written):
    one, four = (memory_of(dataset, form, tmp_path / f"out{number}", *options) for number, dataset in enumerate(lengths))
    assert one[0] == four[0] == 0 and four[1] < one[1] + 10e6
    assert sum(map(len, files(tmp_path / "out1").values())) > written
