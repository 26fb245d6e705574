"""The lag of images against poses: rendered takes of known motion, with latencies that are known, and cameras whose motion does not tell."""

import json
import shutil

import h5py
import numpy as np
import pytest
from outputs import manifest
from report_pages import Tree, paths, report
from scipy.spatial.transform import Rotation
from sealing import rewrite, seal

SECONDS = 5


def wave(time, frequency, degrees, phase):
    return np.radians(degrees) * np.sin(2 * np.pi * frequency * time + phase)


def pan(t, p):
    return wave(t, 0.5, 30, p), wave(t, 0.3, 5, 2 * p), wave(t, 0.2, 2, 3 * p), np.c_[0.1 * np.sin(t), 0.05 * np.cos(t), 0.1 * np.sin(0.9 * t + p)]


def shake(t, p):
    return wave(t, 1.3, 8, p), wave(t, 1.1, 6, 2 * p), wave(t, 0.7, 3, 3 * p), np.c_[0.05 * np.sin(3 * t), 0.03 * np.cos(4 * t), 0.05 * np.sin(2.5 * t)]


def nod(t, p):
    return wave(t, 0.4, 6, p), wave(t, 0.8, 15, 2 * p), wave(t, 0.5, 3, 3 * p), np.c_[0.2 * np.sin(2 * t + p), 0.1 * np.sin(2 * t), 0.2 * np.cos(2 * t)]


def walk(t, p):
    yaw, pitch = wave(t, 0.25, 50, p) + wave(t, 1.8, 1, 0), wave(t, 0.4, 12, 2 * p) + wave(t, 2, 1, 0)
    return yaw, pitch, wave(t, 0.5, 4, 3 * p), np.c_[0.2 * t - 0.5, 0.02 * np.sin(11 * t), 0.4 * np.sin(1.9 * t + p)]


def reach(t, p):
    """A hand that turns and moves at the same frequencies, so that near things shift as late images would."""
    yaw = wave(t, 0.6, 15, p) + wave(t, 1.1, 5, 0)
    return yaw, wave(t, 0.5, 15, 2 * p), wave(t, 0.7, 15, 3 * p), np.c_[0.15 * np.sin(3.8 * t), 0.1 * np.sin(3.1 * t + p), 0.15 * np.cos(2.5 * t)]


def still(t, p):
    return 0 * t + p, 0 * t, 0 * t, np.zeros((len(t), 3))


def even(t, p):
    return np.radians(40) * t + p, 0 * t, 0 * t, np.zeros((len(t), 3))


LIVELY, OTHERS = [pan, shake, nod, walk, reach], [still, even]


def take(takeset, root, motion, rate, phase):
    time = np.arange(rate * SECONDS) / rate
    yaw, pitch, roll, positions = motion(time, phase)
    matrices = Rotation.from_euler("YXZ", np.c_[yaw, pitch, roll]).as_matrix()
    lines = [
        " ".join([str(81_000_000_000_000 + round(one * 1e9)), *(repr(float(number)) for number in np.c_[matrix, position + [0, 0.1, 0]].ravel())])
        for one, matrix, position in zip(time, matrices, positions, strict=True)
    ]
    path = root / f"{motion.__name__}-{rate}.txt"
    path.write_text("\n".join(lines) + "\n")
    takeset.simulate(
        root / "takes" / path.stem, "--trajectory", path, "--seconds", SECONDS, "--rate", rate, "--size", "320x240", "--depth-size", "32x24",
        "--seed", rate)  # fmt: skip


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("lag")
    for number, motion in enumerate(LIVELY + OTHERS):
        for rate in (30, 60):
            take(takeset, root, motion, rate, 0.7 * number + rate / 30)
    return root / "takes"


def measured(takeset, takes, root, latency, steps="", writer="hdf5"):
    """The lag (ms) and the findings of it, by take."""
    (root / "pipeline.yaml").write_text(f"version: 1\ntransforms: [align: {{latency: {{camera_image: {latency}}}}}{steps}]\nwriter: {writer}\n")
    takeset("run", takes, "--output", root / "out", "--pipeline", root / "pipeline.yaml", check=0)
    entries = manifest(root / "out")["record"]["takes"]
    return {
        one["id"]: (one["measures"]["image_pose_lag_ms"], one["measures"]["image_pose_lag_r"], [f for f in one["findings"] if f["code"] == "image-pose-lag"])
        for one in entries
    }


# Images whose known latency was subtracted, although they had none, are early by it.
@pytest.mark.parametrize("latency", [-0.1, -0.05, -0.013, 0, 0.037, 0.1])
def test_the_lag_is_found_within_3_ms(takeset, takes, tmp_path, latency):
    for id, (lag, sure, findings) in measured(takeset, takes, tmp_path, latency).items():
        if id.split("-")[0] in ("still", "even"):
            assert lag is None and sure is None and findings == [], id
            continue
        assert lag == pytest.approx(-1000 * latency, abs=3) and 0.8 < sure <= 1, id
        if abs(latency) > 0.02 or latency == 0:
            assert len(findings) == (latency != 0), id
        for finding in findings:
            assert finding["severity"] == "warning" and finding["field"] == "camera_image"
            named = float(finding["message"].split("camera_image: ")[1].split("}")[0])
            assert named == pytest.approx(0, abs=0.003), "the latency that would be right"


@pytest.mark.parametrize("rename", ["", ", rename: {streams: {camera_image: wrist_image, pose: wrist_pose}}"])
def test_the_remedies_of_the_message_work(takeset, takes, tmp_path, rename):
    """For images, and for poses; by the names that align knows, which later steps may change."""
    shutil.copytree(takes / "pan-60", tmp_path / "takes/pan-60")

    def run(latency):
        (tmp_path / "pipeline.yaml").write_text(f"version: 1\ntransforms: [align: {{latency: {{{latency}}}}}{rename}]\nwriter: hdf5\n")
        takeset("run", tmp_path / "takes", "--output", tmp_path / "out", "--pipeline", tmp_path / "pipeline.yaml", "--replace", check=0)
        (entry,) = manifest(tmp_path / "out")["record"]["takes"]
        return entry["measures"]["image_pose_lag_ms"], [one["message"] for one in entry["findings"] if one["code"] in ("image-pose-lag", "option-unused")]

    lag, (message,) = run("camera_image: 0.05")
    assert lag == pytest.approx(-50, abs=3) and "align: {latency: {camera_image: " in message
    assert float(message.split("{pose: ")[1].split("}")[0]) == pytest.approx(0.05, abs=0.003)
    for remedy in (message.split("latency: {")[1].split("}")[0], "camera_image: 0.05, " + message.split("times, {")[1].split("}")[0]):
        lag, messages = run(remedy)
        assert lag == pytest.approx(0, abs=3) and messages == []


@pytest.mark.parametrize("phase", [0, 1])
def test_an_image_that_is_repeated_counts_from_its_first_row(takeset, takes, tmp_path, phase):
    """30 images a second in 60 rows, whichever row is the first of two."""
    shutil.copytree(takes / "reach-60", tmp_path / "takes/reach-60")
    images = sorted((tmp_path / "takes/reach-60/rgb").iterdir())
    for number, image in enumerate(images):
        if (number - phase) % 2 == 1:
            shutil.copyfile(images[number - 1], image)
    (lag, _, findings), = measured(takeset, tmp_path / "takes", tmp_path, 0).values()
    assert lag == pytest.approx(0, abs=3) and findings == []


@pytest.mark.parametrize(
    "steps",
    ["", ", crop: {box: [0, 0, 240, 180]}", ", crop: {box: [80, 60, 160, 120]}", ", resize-image: {width: 320, height: 160, mode: stretch}",
     ", crop: {box: [0, 0, 200, 240]}, rotate: {degrees: 90}", ", pose-frame: {axes: opencv, origin: first-frame}"],
)  # fmt: skip
def test_images_with_intrinsics_are_cropped_and_stretched(takeset, takes, tmp_path, steps):
    """Another format: the same images and poses as NeRFCapture would have them, in a world of their own scale."""
    for name in ("pan-30", "shake-60"):
        source, target = takes / name, tmp_path / "takes" / name
        shutil.copytree(source / "rgb", target / "images")
        frames = [
            {"file_path": f"images/{image.name}", "timestamp": pose["timestamp"], "transform_matrix": pose["transform"]}
            for image, pose in zip(sorted((source / "rgb").iterdir()), json.loads((source / "poses.json").read_text()), strict=True)
        ]
        camera = {"camera_model": "OPENCV", "fl_x": 240, "fl_y": 240, "cx": 160, "cy": 120, "w": 320, "h": 240}
        (target / "transforms.json").write_text(json.dumps({**camera, "frames": frames}))
    found = measured(takeset, tmp_path / "takes", tmp_path, -0.04, steps)
    assert [lag for lag, _, _ in found.values()] == pytest.approx([40, 40], abs=3)


def test_episodes_are_chosen_by_it(takeset, takes, tmp_path):
    found = measured(takeset, takes, tmp_path, 0.05)
    takeset("select", tmp_path / "out", "--where", "measures.image_pose_lag_ms < -30 and measures.image_pose_lag_r > 0.5", "--output", tmp_path / "late", check=0)
    chosen = {one["id"] for one in manifest(tmp_path / "late")["record"]["takes"]}
    assert chosen == {id for id, (lag, _, _) in found.items() if lag is not None} and len(chosen) == 2 * len(LIVELY)


@pytest.mark.parametrize(
    "steps, writer",
    [(", decimate: {every: 2}", "hdf5"), (", resample: {rate: 30}", "hdf5"), (", trim: {start: 0.5, end: 0.5}", "{hdf5: {image: png}}"),
     (", resize-image: {width: 192, height: 108, mode: cover}", "{hdf5: {image: jpeg}}")],
)  # fmt: skip
def test_steps_leave_it_as_it_is(takeset, takes, tmp_path, steps, writer):
    found = measured(takeset, takes, tmp_path, 0.05, steps, writer)
    known = [lag for lag, _, _ in found.values() if lag is not None]
    # Images at 15 Hz may tell nothing.
    assert len(known) >= 5 and known == pytest.approx([-50] * len(known), abs=3)


def test_images_that_are_not_decoded_or_too_small_have_none(takeset, takes, tmp_path):
    for steps, writer in [("", "{hdf5: {image: jpeg}}"), (", resize-image: {width: 48, height: 36}", "hdf5")]:
        assert {lag for lag, _, _ in measured(takeset, takes, tmp_path, 0, steps, writer).values()} == {None}
        shutil.rmtree(tmp_path / "out")


def forget(record):
    """As an earlier version wrote it."""
    for take in record["takes"]:
        del take["measures"]


def test_datasets_of_before_are_measured_when_they_are_listed(takeset, takes, tmp_path):
    steps, writer = ", decimate: {every: 2}, resize-image: {width: 192, height: 144}", "{hdf5: {image: png}}"
    found = measured(takeset, takes, tmp_path, 0.05, steps, writer)
    rewrite(tmp_path / "out", forget)
    own = json.loads(takeset("measures", tmp_path / "out", "--json", check=0).stdout)
    assert sum(lag is not None for lag, _, _ in found.values()) >= 4
    for id, (lag, sure, _) in found.items():
        assert (own[id]["image_pose_lag_ms"], own[id]["image_pose_lag_r"]) == (lag and pytest.approx(lag, abs=0.1), sure and pytest.approx(sure, abs=1e-3)), id


def shift(drawing):
    """The seconds by which the curve of images is behind that of poses, by the pieces of a drawing."""
    found = []
    for images, poses in zip(paths(drawing, "curve"), paths(drawing, "other"), strict=True):
        top = images[:, 1].mean()
        # Ticks below each piece tell the pixels of a second.
        ticks = [(x, float(text.split()[0])) for x, y, text, _ in drawing["labels"] if text.endswith(" s") and 20 < y - top < 80 and x > 20]
        pixels = np.polyfit([time for _, time in ticks], [x for x, _ in ticks], 1)[0]
        shifts = np.arange(-0.15, 0.15, 0.001)
        across = np.arange(poses[0, 0] + 0.15 * pixels, poses[-1, 0] - 0.15 * pixels)
        late = np.interp(across, images[:, 0], images[:, 1])
        costs = [((late - np.interp(across - seconds * pixels, poses[:, 0], poses[:, 1])) ** 2).mean() for seconds in shifts]
        found.append(shifts[np.argmin(costs)])
    return found


@pytest.mark.parametrize("latency", [-0.06, 0.05])
def test_pages_show_the_motion_of_images_and_of_poses(takeset, takes, tmp_path, latency):
    measured(takeset, takes, tmp_path, latency)
    page, _ = report(takeset, tmp_path / "out", tmp_path / "report.html")
    for id in ("shake-30", "nod-60"):
        caption, drawing = next((one["name"], one["drawing"]) for one in page.details(id)["curves"] if one["name"].startswith("Motion"))
        assert ("up and down" if id == "nod-60" else "across") in caption and ("late" if latency < 0 else "early") in caption
        assert caption.split("degrees/s: ")[1] in drawing["title"]
        assert np.median(shift(drawing)) == pytest.approx(-latency, abs=0.006)
        takeset("trace", tmp_path / "out", "--episode", id, "--row", 3, "--output", tmp_path / f"{id}.html", check=0)
        section = next(one for one in Tree((tmp_path / f"{id}.html").read_text()).root.all("section") if "Images against poses" in one.text)
        assert caption in section.text
        assert [path.attributes["d"] for path in section.all("path", class_="curve")] == [path for style, path in drawing["lines"] if style == "curve"]
    assert not any(one["name"].startswith("Motion") for one in page.details("still-30")["curves"])
    takeset("trace", tmp_path / "out", "--episode", "still-30", "--row", 3, "--output", tmp_path / "still.html", check=0)
    assert "Images against poses" not in (tmp_path / "still.html").read_text()


def test_poses_that_are_none_are_left_out(takeset, takes, tmp_path):
    """And the same is found each time."""
    found = measured(takeset, takes, tmp_path, 0.05)
    with h5py.File(tmp_path / "out/episodes/pan-30.h5", "r+") as file:
        file["data/demo_0/obs/pose"][40, 3:] = 0
        file["data/demo_0/obs/pose"][60] = np.nan
    seal(tmp_path / "out", "pan-30")
    rewrite(tmp_path / "out", forget)
    lags = {json.loads(takeset("measures", tmp_path / "out", "--json", check=0).stdout)["pan-30"]["image_pose_lag_ms"] for _ in range(4)}
    assert list(lags) == [pytest.approx(found["pan-30"][0], abs=1)]
