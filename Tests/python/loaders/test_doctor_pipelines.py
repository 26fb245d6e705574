"""`verify --for`: what pipelines and takes make of a dataset, and that the remedies remove it."""

import re

import pytest
import yaml
from doctor_sets import FIRST, PIPELINES, SECOND, changed, checkup, converted, edited, simulated
from PIL import Image, ImageFilter
from stack_sessions import v3_slam


@pytest.fixture(scope="module")
def stack(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("stack") / "in")


@pytest.fixture
def made(takeset, stack, tmp_path):
    """Examines what other steps, or other takes, make of a loader's clean dataset."""

    def make(loader, *others, without=(), takes=None, arguments=(), **writer):
        steps = changed(PIPELINES[loader], *others, without=without)
        return checkup(takeset, loader, converted(takeset, takes or stack, tmp_path / f"made{len(list(tmp_path.iterdir()))}", steps, **writer), *arguments)

    return make


def is_removed(found, code, made, loader, *others, **options):
    """The steps of a remedy, put into the pipeline, remove what was found."""
    steps = [yaml.safe_load(step) for step in found[code].get("steps", [])]
    writer = yaml.safe_load(found[code].get("writer", "hdf5: {}"))["hdf5"]
    assert steps or writer, found[code]
    again = made(loader, *others, *steps, **options, **writer)
    assert code not in again.codes, again.report
    return again


@pytest.mark.parametrize("code, others, options", [
    ("images-encoded", [], {"image": "jpeg"}), ("next-obs-missing", ["actions"], {}), ("origin-differs", [], {"without": ("pose-frame",)})])
def test_the_remedy_of_the_only_thing_that_is_wrong(made, code, others, options):
    found = made("robomimic", *others, **options)
    assert dict(found.codes) == {code: 1} and found.breaks == ({code} if code == "images-encoded" else set())
    assert is_removed(found, code, made, "robomimic").codes == {}


@pytest.mark.parametrize("loader", ["aloha", "lerobot", "diffusion-policy"])
def test_other_loaders_take_images_stored_as_files(made, loader):
    assert made(loader, image="jpeg").codes == {}


@pytest.mark.parametrize("share, empty", [
    ({"valid": 0.5, "test": 0.4, "group": "take"}, ["mask/test"]), ({"valid": 0.5, "group": "regex", "pattern": "session"}, ["mask/valid"]),
    ({"valid": 0.4, "test": 0.4, "group": "regex", "pattern": "session"}, ["mask/valid", "mask/test"]), ({"valid": 0, "test": 0}, [])])
def test_masks_that_the_pipeline_asks_for(made, share, empty):
    found = made("robomimic", {"split": share})
    assert set(found.codes) == ({"mask-empty"} if empty else set()) and found.ready
    if empty:
        assert found["mask-empty"]["message"].startswith(f"{' and '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty;")


@pytest.mark.slow
def test_keys_that_not_every_take_has(made, takeset, stack, tmp_path):
    takeset("simulate", "stray-scanner", "--output", tmp_path / "scan", "--seconds", 1.2, "--size", "64x48", "--depth-size", "16x12", check=0)
    takes = [stack, tmp_path / "scan"]
    found = made("robomimic", without=("select",), takes=takes)
    assert found["key-missing"]["message"].startswith(
        f"not every episode has camera_depth (not in {FIRST}, {SECOND}), depth_point (not in scan), joints (not in scan); ")
    assert "key-missing" in found.breaks
    assert found["key-missing"]["steps"] == ["select: {streams: [camera_image, pose]}"]
    is_removed(found, "key-missing", made, "robomimic", takes=takes)
    assert made("robomimic", without=("select",), takes=takes, arguments=["--obs", "pose", "--obs", "camera_image"]).breaks == set()
    assert "--drop-keys camera_depth,depth_point,joints`" in made("lerobot", without=("select",), takes=takes)["key-missing"]["remedy"]
    assert "--qpos pose" in made("aloha", without=("select",), takes=takes)["key-missing"]["command"]
    plain = made("diffusion-policy", without=("select",), takes=takes)
    assert plain["key-missing"]["severity"] == "trains-badly" and plain["gripper-missing"]["episodes"] == ["scan"]


@pytest.mark.slow
@pytest.mark.parametrize("loader", ["robomimic", "aloha", "lerobot", "diffusion-policy"])
def test_images_of_several_sizes(takeset, made, stack, tmp_path, loader):
    other = simulated(takeset, tmp_path / "other", names=("session_2026-03-03_100000",), common=("--seconds", 1.2, "--size", "80x48"))
    found = made(loader, without=("resize-image",), takes=[stack, other])
    assert "mixed-sizes" in found.breaks
    assert found["mixed-sizes"]["message"].startswith(f"camera_image has several shapes: 48x64x3 in {FIRST}, {SECOND}; 48x80x3 in session_2026-03-03")
    is_removed(found, "mixed-sizes", made, loader, takes=[stack, other])


@pytest.mark.parametrize("loader, steps, codes", [
    ("aloha", ["align", {"select": {"streams": ["camera_image", "joints"]}}], {"actions-missing", "poses-missing"}),
    ("aloha", ["align", {"select": {"streams": ["pose"]}}, "actions"], {"images-missing"}),
    ("lerobot", ["align", {"select": {"streams": ["pose"]}}], {"actions-missing"}),
    ("diffusion-policy", ["align", {"select": {"streams": ["pose"]}}, "actions"], {"images-missing"}),
    ("nerfstudio", ["align", {"select": {"streams": ["camera_image"]}}], {"intrinsics-missing", "poses-missing"}),
    ("nerfstudio", ["align", {"select": {"streams": ["pose"]}}], {"images-missing"})])
def test_what_a_pipeline_leaves_out(takeset, stack, tmp_path, loader, steps, codes):
    found = checkup(takeset, loader, converted(takeset, stack, tmp_path / "out", steps))
    assert found.breaks - {"rate-other", "times-uneven"} == codes


@pytest.mark.slow
def test_depth_in_two_units_and_beyond_a_meter(takeset, made, tmp_path):
    tiny = ["--seconds", 1.2, "--size", "64x48", "--depth-size", "16x12"]
    takeset.simulate(tmp_path / "in/session_2026-03-03_100000", *tiny)
    takeset("simulate", "stray-scanner", "--output", tmp_path / "in/scan", *tiny, check=0)
    streams = {"select": {"streams": ["pose", "camera_image", "camera_depth"]}}
    mixed = made("robomimic", streams, takes=tmp_path / "in")
    assert mixed.codes["mixed-units"] == 2  # Axes of the cameras too.
    axes = {"pose-frame": {"axes": "arkit", "origin": "first-frame"}}
    found = made("robomimic", streams, axes, takes=tmp_path / "in")
    assert found["mixed-units"]["steps"] == ["resample-depth: {unit: m}"]
    assert "camera_depth means different things: m, <f4 in session_2026-03-03_100000; mm, <u2 in scan" in found["mixed-units"]["message"]
    assert re.search(r"camera_depth is up to \d{4} mm, with up to 100 % of the values above 1,", found["depth-clipped"]["message"])
    again = is_removed(found, "mixed-units", made, "robomimic", streams, axes, takes=tmp_path / "in")
    assert " m, with up to " in again["depth-clipped"]["message"]
    is_removed(again, "depth-clipped", made, "robomimic", takes=tmp_path / "in")
    # The replay buffer has one type in an array; LeRobot's is in millimeters whatever the dataset has.
    assert "mixed-units" in made("diffusion-policy", streams, axes, takes=tmp_path / "in").breaks
    assert "mixed-units" not in made("lerobot", streams, axes, takes=tmp_path / "in").codes


def test_actions_out_of_range(takeset, made):
    streams = {"select": {"streams": ["pose", "camera_image", "joints"]}}
    found = made("robomimic", streams, {"actions": {"joints": "absolute", "next-obs": True}})["actions-out-of-range"]
    assert re.search(r"up to -?[\d.]+ \(joints \d\)", found["message"]) and found["steps"] == ["actions: {joints: none}"]
    jumping = made("robomimic", {"pose-frame": {"body": [3, 0, 0, 0, 0, 0, 1]}}, {"actions": {"kind": "absolute-6d", "next-obs": True}})
    assert jumping["actions-out-of-range"]["steps"] == ["actions: {kind: relative-6d}"]


def test_poses_without_a_scale(takeset, made, tmp_path):
    for name in FIRST, SECOND:
        v3_slam().write(tmp_path / "in" / name)
    for loader in "robomimic", "aloha", "lerobot":
        found = made(loader, takes=tmp_path / "in", without=("trim",))
        assert found["scale-arbitrary"]["message"].startswith("all 2 episodes have poses in an arbitrary unit; ")


@pytest.mark.parametrize("quirk, code", [("pose-jump", "pose-jump"), ("pose-repeated", "pose-repeated"), ("frames-dropped", "gaps")])
def test_quirks_of_takes_are_removed_by_the_remedy(takeset, made, tmp_path, quirk, code):
    takes = simulated(takeset, tmp_path / "in", "--quirk", quirk)
    found = made("robomimic", takes=takes)
    assert code in found.codes
    is_removed(found, code, made, "robomimic", takes=takes)


def test_gaps_break_only_what_refuses_them(takeset, made, tmp_path):
    takes = simulated(takeset, tmp_path / "in", "--quirk", "frames-dropped")
    severities = {loader: made(loader, takes=takes)["gaps"]["severity"] for loader in ("robomimic", "aloha")}
    assert severities == {"robomimic": "trains-badly", "aloha": "breaks"}
    assert "--masked split" in made("aloha", takes=takes)["gaps"]["command"]


@pytest.mark.parametrize("loader", ["robomimic", "aloha", "diffusion-policy"])
def test_a_joint_without_answer(takeset, made, tmp_path, loader):
    takes = simulated(takeset, tmp_path / "in", "--quirk", "joint-dead")
    found = made(loader, {"select": {"streams": ["pose", "camera_image", "joints"]}}, takes=takes)
    assert "index_pip of joints has no angle, or always the same one, in all 2 episodes" in found["joint-dead"]["message"]
    assert re.match(r"joints is NaN or infinite in (\d+) of \1 rows of all 2 episodes", found["not-finite"]["message"])
    # No row is complete, so that nothing is left to export.
    assert ("not-finite" in found.breaks) == (loader != "robomimic")
    is_removed(found, "joint-dead", made, loader, takes=takes)


def test_images_that_repeat(made):
    found = made("robomimic", {"resample": {"rate": 120}})
    assert dict(found.codes) == {"images-repeated": 1}
    assert "up to 2 in a row" in found["images-repeated"]["message"]
    is_removed(found, "images-repeated", made, "robomimic")


def test_uneven_times(made):
    found = made("robomimic", {"decimate": {"rate": 24}}, arguments=["--window", 5])
    assert set(found.codes) == {"times-uneven", "too-few-rows"} and found["times-uneven"]["steps"] == ["resample: {rate: 24}"]
    again = made("robomimic", {"resample": {"rate": 24}}, arguments=["--window", 5])
    assert set(again.codes) == {"too-few-rows"}


def test_rates_that_differ_or_are_not_the_loaders(takeset, made, stack, tmp_path):
    other = simulated(takeset, tmp_path / "in", "--rate", 30, names=("session_2026-03-03_100000",), common=("--seconds", 2.4, "--size", "64x48"))
    found = made("robomimic", takes=[stack, other])
    assert dict(found.codes) == {"rate-other": 1}
    assert found["rate-other"]["message"].startswith("session_2026-03-03_100000 is at 30 Hz, and most rows at 60 Hz; ")
    assert found["rate-other"]["steps"] == ["resample: {rate: 60}"]
    assert "rate-other" in made("lerobot", {"resample": {"rate": 20}}).breaks
    assert made("lerobot", {"resample": {"rate": 20}})["rate-other"]["command"].endswith("OUT --fps 20")
    assert made("lerobot", {"resample": {"rate": 14.5}}).breaks >= {"rate-other", "times-uneven"}
    slow = made("diffusion-policy", {"resample": {"rate": 20}}, arguments=["--window", 8], without=("trim",))
    assert dict(slow.codes) == {"rate-other": 1} and slow["rate-other"]["message"].startswith("rows are at 20 Hz; UMI takes rows to be at 59.94 Hz")


@pytest.mark.parametrize("loader, arguments, least, breaks", [
    ("robomimic", ["--window", 80], 80, False), ("aloha", [], 100, False), ("lerobot", ["--window", 50], 50, False),
    ("diffusion-policy", ["--window", 21], 61, True), ("diffusion-policy", ["--window", 20], 58, False)])
def test_episodes_shorter_than_a_window(takeset, tmp_path, loader, arguments, least, breaks):
    takes = simulated(takeset, tmp_path / "in", common=("--seconds", 1.2, "--size", "64x48"))
    dataset = converted(takeset, takes, tmp_path / "out", PIPELINES[loader])
    found = checkup(takeset, loader, dataset, *(arguments or ["--window", 100]))
    if loader == "diffusion-policy" and not breaks:
        assert found.codes == {}  # 59 rows, and UMI's window of 20 steps of 3 spans 58.
        return
    assert f"fewer than {least} rows" in found["short-episode"]["message"] and ("short-episode" in found.breaks) == breaks


def test_lengths_and_numbers_of_episodes(takeset, made, stack, tmp_path):
    other = simulated(takeset, tmp_path / "in", names=("session_2026-03-03_100000",), common=("--seconds", 1, "--size", "64x48"))
    found = made("aloha", takes=[stack, other])
    assert dict(found.codes) == {"lengths-differ": 1} and found.breaks == {"lengths-differ"}
    assert found["lengths-differ"]["message"].startswith("episodes have 60 to 108 rows; ")
    single = made("aloha", takes=[other])
    assert single.breaks == {"too-few-episodes"}
    few = made("robomimic", takes=[other], arguments=["--window", 10])
    assert few["too-few-rows"]["message"].startswith("train has 60 rows; ") and "too-few-rows" in few.breaks
    nothing = made("robomimic", {"min-frames": {"count": 1000}})
    assert nothing.breaks == {"no-episodes"} and nothing.report["episodes"] == 0


def test_spreads_that_act_clips(takeset, made, stack, tmp_path):
    assert "actions: {kind: absolute-quat}" in made("aloha", {"actions": {"kind": "relative-6d"}})["spread-clipped"]["steps"]
    streams = {"select": {"streams": ["pose", "camera_image", "joints"]}}
    steps = changed(PIPELINES["aloha"], streams, {"trim": {"start": 0.1, "end": 0.1}}, {"actions": {"kind": "absolute-quat", "joints": "absolute"}})
    plain = converted(takeset, stack, tmp_path / "plain", steps)

    def examined(factor):
        def scale(file):
            for values, columns in (file["data/demo_0/obs/joints"], slice(None)), (file["data/demo_0/actions"], slice(7, None)):
                values[:, columns] *= factor

        found = checkup(takeset, "aloha", edited(plain, tmp_path / f"by{factor}", scale, shards=2))
        return [one for one in found.report["diagnoses"] if one["code"] == "spread-clipped"]

    assert examined(0.5) == []
    joints, actions = sorted(examined(10), key=lambda one: "of actions" in one["message"])
    assert "index_mcp" in joints["message"] and "--qpos pose" in joints["command"]
    assert "joints 0" in actions["message"] and actions["steps"] == ["actions: {angle: radian}"]


def test_image_sizes(made):
    found = made("diffusion-policy", {"resize-image": {"width": 96, "height": 96, "mode": "stretch"}})
    assert dict(found.codes) == {"image-size": 1} and "96x96" in found["image-size"]["message"]
    is_removed(found, "image-size", made, "diffusion-policy")
    odd = made("lerobot", {"resize-image": {"width": 63, "height": 47, "mode": "stretch"}})
    assert dict(odd.codes) == {"image-size": 1} and odd.ready
    assert odd["image-size"]["command"].endswith("OUT --images video --codec av1")


def test_each_part_fills_a_batch_of_robomimic(takeset, made, stack, tmp_path):
    """Its loaders of training and validation drop an incomplete batch of 100; 108 rows in one part do not help the other."""
    other = simulated(takeset, tmp_path / "in", names=(SECOND,), common=("--seconds", 1, "--size", "64x48"))
    found = made("robomimic", takes=[stack / FIRST, other], arguments=["--window", 10])
    assert found.breaks == {"too-few-rows"} and dict(found.codes) == {"too-few-rows": 1}
    few = found["too-few-rows"]
    assert re.match(r"(train|valid) has 60 rows; ", few["message"]) and few["episodes"] == [SECOND]
    assert "train.batch_size, which is 100 by default, to at most 60" in few["remedy"]


# Scenes


@pytest.fixture(scope="module")
def scans(takeset, tmp_path_factory):
    return simulated(takeset, tmp_path_factory.mktemp("scans") / "in", reader="stray-scanner", names=("scan-a", "scan-b"),
                     common=("--seconds", 1.2, "--size", "64x48"))


def test_takes_without_intrinsics_or_of_a_body(made, scans):
    found = made("nerfstudio", takes=None)
    assert found.breaks == {"intrinsics-missing"} and found["intrinsics-missing"]["episodes"] == [FIRST, SECOND]
    assert dict(made("nerfstudio", {"pose-frame": {"body": [0, 0, 0.1, 0, 0, 0, 1]}}, takes=scans).codes) == {"pose-of-body": 1}


def test_intrinsics_of_another_size(takeset, scans, tmp_path):
    dataset = converted(takeset, scans, tmp_path / "dataset", PIPELINES["nerfstudio"])

    def narrow(file):
        for name in file["meta"]:
            file["meta"][name]["intrinsics"][5, 2] = 900

    assert "intrinsics-implausible" not in checkup(takeset, "nerfstudio", dataset).codes
    found = checkup(takeset, "nerfstudio", edited(dataset, tmp_path / "copy", narrow, shards=1))
    assert found["intrinsics-implausible"]["episodes"] == ["scan-a"] and found.ready


def test_scenes_of_too_few_or_too_large_images(made, scans):
    short = made("nerfstudio", {"decimate": {"every": 10}}, takes=scans)
    assert short.breaks == {"short-episode"} and "--window" not in short["short-episode"]["remedy"]
    few = made("nerfstudio", {"decimate": {"every": 5}}, takes=scans)
    assert dict(few.codes) == {"too-few-rows": 1} and few.ready
    large = made("nerfstudio", {"resize-image": {"width": 1700, "height": 64, "mode": "stretch"}}, {"trim": {"end": 0.6}}, takes=scans)
    assert dict(large.codes) == {"image-size": 1}


def test_blurred_images(takeset, made, tmp_path):
    takes = simulated(takeset, tmp_path / "in", common=("--seconds", 1.2, "--size", "160x120"))
    for path in sorted((takes / FIRST / "rgb").iterdir())[::5]:
        with Image.open(path) as image:
            image.filter(ImageFilter.GaussianBlur(6)).save(path, quality=95)
    found = made("nerfstudio", takes=takes)
    assert found["images-blurred"]["episodes"] == [FIRST]
    is_removed(found, "images-blurred", made, "nerfstudio", takes=takes)
