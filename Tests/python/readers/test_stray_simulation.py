"""Simulated scans: their form is that of recordings, and they convert to what they hold."""

from fractions import Fraction

import numpy as np
import pytest
from conversions import PLAIN
from images import numbers
from outputs import codes, demos, take
from PIL import Image
from scan_checks import absolute, scan_codes
from scans import NEW, OLD
from videos import decoded

QUIRKS = ["no-edit-list", "si-acceleration", "encoded-again", "resized"]
SIMULATED = ["--size", "160x120", "--depth-size", "64x48", "--rate", 30]


@pytest.fixture(scope="module")
def simulated(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("simulated")
    forms = {"both": [], "depth": ["--no-movie"], "old": ["--old-csv"]}
    forms |= {quirk: ["--quirk", quirk] for quirk in QUIRKS}
    for name, options in forms.items():
        takeset("simulate", "stray-scanner", "--output", root / "in" / name, *SIMULATED, "--seconds", 1, "--seed", 4, *options, check=0)
    takeset.convert(root / "in", output=root / "out", arguments=PLAIN)
    return root


def table(path):
    header, *lines = path.read_text().splitlines()
    return [c.strip() for c in header.split(",")], [[f.strip() for f in line.split(",")] for line in lines]


@pytest.mark.parametrize("name", ["both", "depth", "old"])
def test_a_simulation_has_the_form_of_a_recording(simulated, name):
    source = simulated / "in" / name
    columns, rows = table(source / "odometry.csv")
    expected = [*OLD] if name == "old" else [*NEW, "distortion_center_x", "distortion_center_y"]
    assert columns == expected and len(rows) == 30 and all(len(row) == len(expected) for row in rows)
    assert [row[1] for row in rows] == [f"{n:06d}" for n in range(30)] and b", " in (source / "odometry.csv").read_bytes()
    assert (source / "rgb.mp4").exists() == (name != "depth")
    for folder, bits in ("depth", 16), ("confidence", 8):
        assert sorted(p.name for p in (source / folder).iterdir()) == [f"{n:06d}.png" for n in range(30)]
        assert np.array(Image.open(source / folder / "000007.png")).shape == (48, 64)
        assert (source / folder / "000007.png").read_bytes()[24:26] == bytes([bits, 0])  # of the header: bit depth, gray
    assert set(np.unique(np.array(Image.open(source / "confidence/000007.png")))) <= {0, 1, 2}
    matrix = (source / "camera_matrix.csv").read_bytes()
    assert not matrix.endswith(b"\n") and [len(line.split(b",")) for line in matrix.split(b"\n")] == [3, 3, 3]
    stamps = [float(row[0]) for row in table(source / "imu.csv")[1]]
    assert len(table(source / "imu.csv")[0]) == 7 and np.diff(stamps).mean() == pytest.approx(0.01, rel=0.05)


@pytest.mark.parametrize("name", ["both", "depth", "old"])
def test_a_simulation_converts_cleanly_to_what_it_holds(simulated, name):
    source, entry = simulated / "in" / name, take(simulated / "out", name)
    demo, meta = demos(simulated / "out")[name]
    columns, rows = table(source / "odometry.csv")
    column = {c: [row[i] for row in rows] for i, c in enumerate(columns) if c}
    assert entry["reader"] == "stray-scanner" and entry["variant"] == ("depth-only" if name == "depth" else "rgbd")
    # Without a video, the matrix is taken for one of the app's full-size images.
    assert scan_codes(entry) == ["acceleration-in-g"] + ["intrinsics-implausible"] * (name == "depth")
    assert ("geometry-contradictory" in codes(entry)) == (name == "depth")
    assert meta["source_index"][:].tolist() == list(range(30))
    assert absolute(meta) == [round(Fraction(t) * 10**9) for t in column["timestamp"]]
    assert (demo["obs/pose"][:, :3] == np.array([[float(v) for v in column[c]] for c in "xyz"]).T.astype("f4")).all()
    for obs, folder in ("camera_depth", "depth"), ("camera_depth_confidence", "confidence"):
        expected = np.stack([np.array(Image.open(source / folder / f"{n:06d}.png")) for n in range(30)])
        assert (demo["obs"][obs][..., 0] == expected).all()
    if name != "depth":
        assert numbers(demo["obs/camera_image"][:]) == list(range(30))
    # Rows of their own where the newer form has them.
    assert (len(np.unique(meta["camera_depth_intrinsics"][:], axis=0)) == 1) or name != "old"


def test_a_simulated_video_hides_its_first_image_as_the_app_does(simulated):
    for name, first in ("both", 1), ("no-edit-list", 0), ("encoded-again", 1):
        assert numbers(decoded(simulated / "in" / name / "rgb.mp4")) == list(range(first, 30)), name
    for name, rows in ("both", range(30)), ("no-edit-list", range(30)), ("encoded-again", range(1, 30)):
        demo, meta = demos(simulated / "out")[name]
        assert numbers(demo["obs/camera_image"][:]) == meta["source_index"][:].tolist() == list(rows), name
        assert scan_codes(take(simulated / "out", name), "warning") == (["movie-count-mismatch", "image-missing"] if len(rows) == 29 else [])


def test_simulated_accelerations_contain_gravity(simulated):
    def norms(name):
        rows = np.array([[float(v) for v in row[1:4]] for row in table(simulated / "in" / name / "imu.csv")[1]])
        return np.linalg.norm(rows, axis=1), rows

    (in_g, raw), (si, other) = norms("both"), norms("si-acceleration")
    assert np.median(in_g) == pytest.approx(1, abs=0.2) and np.allclose(raw * 9.80665, other)
    (_, one), (_, two) = (demos(simulated / "out")[name] for name in ("both", "si-acceleration"))
    assert np.allclose(one["imu/accel"][:], two["imu/accel"][:], rtol=1e-5)
    assert "acceleration-in-g" not in scan_codes(take(simulated / "out", "si-acceleration"))


def test_a_simulation_of_a_resized_video_has_the_apps_intrinsics(simulated):
    entry, (demo, meta) = take(simulated / "out", "resized"), demos(simulated / "out")["resized"]
    assert "intrinsics-scaled" in scan_codes(entry) and entry["details"]["cameras"]["camera_matrix.csv"]["width"] == 1920
    for key in "intrinsics", "camera_depth_intrinsics":
        assert np.allclose(meta[key][:], demos(simulated / "out")["both"][1][key][:], rtol=1e-5)
