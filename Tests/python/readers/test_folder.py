"""Folders that a takeset.yaml describes: of every layout that is simulated, and of people's own."""

import json
import math
import shutil
from decimal import Decimal

import numpy as np
import pytest
import yaml
from command import ROOT
from geometry_oracle import matrices
from images import frame_code
from outputs import codes, finding, manifest, only
from phone_takes import absolute, problem, zipped
from PIL import Image
from scipy.spatial.transform import Rotation, Slerp

LAYOUTS = ["tum", "euroc", "kitti", "realsense", "robot", "arm"]
# Streams as they are, with poses in the axes of ARKit.
PLAIN = "version: 1\ntransforms: [{align: {tolerance: 0.02}}, {pose-frame: {axes: arkit}}]\nwriter: {hdf5: {image: raw}}\n"
START = 1_700_000_000


@pytest.fixture(scope="module")
def folders(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("folders")
    for layout in LAYOUTS:
        takeset("simulate", "folder", "--layout", layout, "--size", "96x72", "--depth-size", "32x24", "--output", root / layout, check=0)
    return root


def converted(takeset, take, output, pipeline=PLAIN, check=0):
    output.mkdir(exist_ok=True)
    (output / "p.yaml").write_text(pipeline)
    done = takeset.convert(take, output=output / "out", arguments=["--pipeline", output / "p.yaml"], check=check)
    return only(output / "out") if check == 0 else done


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_have_the_true_image_pose_and_opening(takeset, folders, tmp_path, layout):
    entry, demo, meta = converted(takeset, folders / layout, tmp_path / layout)
    truth = json.loads((folders / layout / "truth.json").read_text())
    assert entry["reader"] == "folder" and entry["id"] == layout and not [found for found in entry.get("findings", []) if found["severity"] != "info"]
    assert absolute(meta).tolist() == truth["frame_time_ns"]
    # A video's images are encoded with loss; their codes are not.
    assert [frame_code(image) for image in demo["obs/camera_image"][:]] == list(range(0, 2 * truth["frames"], 2))
    expected = np.array(truth["camera_to_world"]).reshape(-1, 4, 4)
    assert np.abs(matrices(demo["obs/pose"][:]) - expected).max() < 1e-5
    assert demo["obs/pose"].attrs["world_axes"].startswith("y up" if layout == "kitti" else "z up") and demo["obs/pose"].attrs["unit"] == "m"
    assert meta["timestamp_ns"].attrs["clock"] == ("device-uptime" if layout == "kitti" else "phone-unix")
    # The description counts from the middle of the first pixel, as OpenCV does.
    assert (meta["intrinsics"][:, 2:] == [48, 36]).all()
    if truth["gripper"]:
        unit = 1000 if layout == "robot" else 1
        assert demo["obs/gripper"][:, 0] == pytest.approx(np.array(truth["gripper"]) * unit, rel=1e-6)
        assert demo["obs/gripper"].attrs["unit"] == ("mm" if layout == "robot" else "m")
    if layout in ("tum", "realsense"):
        # Depth is of moments between two images, on times of its own; their names have it.
        unit = 10**9 if layout == "tum" else 10**6
        maps = {int(Decimal(path.stem.split("_")[-1]) * unit): path for path in (folders / layout / "depth").iterdir()}
        for row, time in enumerate(truth["frame_time_ns"]):
            nearest = min(maps, key=lambda other: (abs(other - time), other))
            stored = np.asarray(Image.open(maps[nearest]))
            assert demo["obs/camera_depth"][row, ..., 0] == pytest.approx(stored / 5000.0 if layout == "tum" else stored.astype(float)), row
    assert any(name.startswith("imu") for name in meta) == (layout in ("euroc", "realsense"))


def test_a_zip_is_the_same_as_a_folder(takeset, folders, tmp_path):
    for layout in ("euroc", "tum"):
        own = converted(takeset, folders / layout, tmp_path / layout)
        (tmp_path / f"zip-{layout}").mkdir()
        packed = converted(takeset, zipped(folders / layout, tmp_path / f"zip-{layout}/{layout}.zip", "downloads/"), tmp_path / f"packed-{layout}")
        assert own[0]["output"]["content_sha256"] == packed[0]["output"]["content_sha256"]


def test_a_description_beside_the_pipeline_is_for_all_folders_without_one(takeset, folders, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(folders / "robot", tmp_path / "in" / name)
        (tmp_path / "in" / name / "takeset.yaml").rename(tmp_path / "robot.yaml")
    (tmp_path / "in/other").mkdir()
    (tmp_path / "in/other/notes.txt").write_text("nothing to convert")
    (tmp_path / "p.yaml").write_text("version: 1\nreader: {name: folder, description: robot.yaml}\ntransforms: [align]\n")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"], check=0)
    record = manifest(tmp_path / "out")["record"]
    assert [take["id"] for take in record["takes"]] == ["one", "two"]
    # What the file said is part of the record, so that nobody needs the file to know it.
    assert record["pipeline"]["reader"]["description"] == yaml.safe_load((tmp_path / "robot.yaml").read_text())
    # Another description is another conversion.
    (tmp_path / "robot.yaml").write_text((tmp_path / "robot.yaml").read_text().replace("fold the towel", "open the door"))
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"], check=64)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml", "--replace"], check=0)
    assert "2 unchanged" in takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"], check=0).stdout


@pytest.mark.parametrize(
    "description, words",
    [
        ("images: {camera_image: {file: \"rgb/*.png\"}}", ["images.camera_image.file", "files", "line 1, column"]),
        ("images: {camera_image: {files: \"../*.png\", times: name}}", ["images.camera_image.files", "in the folder of the take"]),
        ("images:\n  camera_image: {files: \"rgb/*.png\"}", ["images.camera_image.times", "line 2"]),
        ("images: {rgb: {files: \"rgb/*.png\", times: name}}", ["images.rgb", "_image"]),
        ("images: {wrist_image: {files: \"rgb/*.png\", times: name}}", ["camera_image"]),
        ("images: {camera_image: {files: \"rgb/*.png\", times: name}}\npose: {table: a.txt}", ["pose", "layout, columns and matrix", "line 2"]),
        ("images: {camera_image: {files: \"rgb/*.png\", times: name}}\npose: {table: a.txt, columns: {x: 1, y: 2, z: 3, qx: 4}}", ["pose.columns", "qw"]),
        ("images: {camera_image: {files: \"rgb/*.png\", times: name}}\ncameras: {wrist: {fx: 1, cx: 1, cy: 1}}", ["cameras.wrist", "no images"]),
        ("images: {camera_image: {files: \"rgb/*.png\", times: name}}\ntime: {unit: seconds}", ["time.unit", "seconds"]),
        ("images: {camera_image: {files: \"rgb/*.png\", times: name}}\nlabels: {success: perhaps}", ["labels", "success"]),
        ("- images", ["expected"]), ("", ["empty"]), ("images: [", ["not YAML"]), ("images: &a {camera_image: *a}", ["alias"]),
    ],
)
def test_mistakes_of_a_description_are_said_with_their_place(takeset, folders, tmp_path, description, words):
    """Those of a take fail that take; those of the pipeline are mistakes of the command."""
    take = shutil.copytree(folders / "tum", tmp_path / "take")
    (take / "takeset.yaml").write_text(description)
    takeset.convert(take, folders / "robot", output=tmp_path / "out", check=3)
    record = manifest(tmp_path / "out")["record"]
    robot, failed = sorted(record["takes"], key=lambda entry: entry["id"])
    assert problem(failed)["code"] == "description-invalid" and robot["output"]
    said = f"{problem(failed).get('field', '')} {problem(failed)['message']}"
    for word in words:
        assert word in said
    (take / "takeset.yaml").rename(tmp_path / "mine.yaml")
    (tmp_path / "p.yaml").write_text("version: 1\nreader: {name: folder, description: mine.yaml}\n")
    done = takeset.convert(take, output=tmp_path / "none", arguments=["--pipeline", tmp_path / "p.yaml"], check=64)
    for word in ["mine.yaml", *words]:
        assert word in done.stderr


def test_a_description_in_the_pipeline_itself(takeset, folders, tmp_path):
    take = shutil.copytree(folders / "tum", tmp_path / "take")
    own = yaml.safe_load((take / "takeset.yaml").read_text())
    (take / "takeset.yaml").unlink()
    reader = json.dumps({"name": "folder", "description": own})
    entry, demo, _ = converted(takeset, take, tmp_path / "inline", PLAIN + f"reader: {reader}\n")
    assert entry["reader"] == "folder" and len(demo["obs/pose"]) == 60
    done = converted(takeset, take, tmp_path / "wrong", PLAIN + "reader:\n  name: folder\n  description:\n    images: {camera_image: {fils: x}}\n", 64)
    assert "reader.description.images.camera_image.fils" in done.stderr and "line 7" in done.stderr
    done = converted(takeset, take, tmp_path / "absent", PLAIN + "reader: {name: folder, description: nowhere.yaml}\n", 64)
    assert "reader.description" in done.stderr and "nowhere.yaml" in done.stderr


class Own:
    """A folder of one's own: ten images at known times, and a smooth path."""

    def __init__(self, root, names, images=10):
        self.root = root
        (root / "img").mkdir(parents=True)
        self.files = [root / "img" / name for name in names]
        for number, file in enumerate(self.files):
            pixels = np.full((24, 32, 3), 20 + 10 * number, np.uint8)
            pixels[::2, ::3] += 5
            Image.fromarray(pixels).save(file)
        chance = np.random.default_rng(3)
        self.stamps = np.arange(0, 1.4, 0.013)
        self.places = np.cumsum(chance.normal(0, 0.004, (len(self.stamps), 3)), 0)
        self.turns = Rotation.from_rotvec(np.cumsum(chance.normal(0, 0.01, (len(self.stamps), 3)), 0))

    def describe(self, **parts):
        (self.root / "takeset.yaml").write_text(yaml.safe_dump(parts))
        return self

    def table(self, name, lines):
        (self.root / name).write_text("\n".join(lines) + "\n")
        return self

    def pose(self, seconds):
        """Positions and rotations at times in seconds, by SciPy."""
        places = np.stack([np.interp(seconds, self.stamps, self.places[:, axis]) for axis in range(3)], 1)
        return places, Slerp(self.stamps, self.turns)(seconds)


IMAGES = {"camera_image": {"files": "img/*.png", "times": "name"}}


def image_numbers(demo):
    return [round((int(image[1, 1, 0]) - 20) / 10) for image in demo["obs/camera_image"][:]]


@pytest.mark.parametrize("form", ["matrix", "inverse", "rotation vector", "angles", "w first", "body"])
def test_poses_between_two_lines_are_those_of_scipy(takeset, tmp_path, form):
    times = np.array([0.1 + 0.1 * number for number in range(10)])
    own = Own(tmp_path / "take", [f"cam-{round(1e6 * (START + t))}.png" for t in times])
    mounted = Rotation.from_euler("zyx", [0.3, -0.2, 0.1]), np.array([0.1, -0.05, 0.02])
    pose = {"table": "p.csv", "axes": "arkit", "time-unit": "s"}
    lines = []
    for t, place, turn in zip(own.stamps, own.places, own.turns):
        stamp = f"{START}.{round(t * 1000):03d}" if t < 1 else f"{START + 1}.{round(t * 1000) - 1000:03d}"
        if form == "inverse":
            turn, place = turn.inv(), -turn.inv().apply(place)
        rotation = {
            "matrix": lambda: np.column_stack([turn.as_matrix(), place]).ravel(), "inverse": lambda: np.column_stack([turn.as_matrix(), place]).ravel(),
            "rotation vector": lambda: [*place * 100, *turn.as_rotvec()], "angles": lambda: [*place * 1000, *turn.as_euler("xyz", degrees=True)],
            "w first": lambda: [*place, *np.roll(turn.as_quat(), 1)], "body": lambda: [*place, *np.roll(turn.as_quat(), 1)]}[form]()
        lines.append(f"{stamp};" + ";".join(str(float(value)).replace(".", ",") for value in rotation))
    if form in ("matrix", "inverse"):
        pose |= {"matrix": list(range(2, 14)), "maps": "world-to-camera" if form == "inverse" else "camera-to-world"}
    elif form in ("w first", "body"):
        pose |= {"columns": {"time": 1, "x": 2, "y": 3, "z": 4, "qw": 5, "qx": 6, "qy": 7, "qz": 8}}
        if form == "body":
            pose["camera-in-body"] = [*mounted[1].tolist(), *mounted[0].as_quat().tolist()]
    else:
        names = ["rx", "ry", "rz"] if form == "rotation vector" else ["roll", "pitch", "yaw"]
        pose |= {"columns": dict(zip(["x", "y", "z", *names], range(2, 8))), "unit": "cm" if form == "rotation vector" else "mm"}
        pose["angle-unit"] = "rad" if form == "rotation vector" else "deg"
    own.table("p.csv", lines).describe(images=IMAGES, pose=pose, time={"unit": "us"})
    entry, demo, meta = converted(takeset, own.root, tmp_path / "made")
    places, turns = own.pose(times)
    found = matrices(demo["obs/pose"][:])
    if form == "body":
        # The body is between two of its poses, and the camera on it.
        places, turns = places + turns.apply(mounted[1]), turns * mounted[0]
    limit = 2e-6
    assert np.abs(found[:, :3, 3] - places).max() < limit and np.abs(found[:, :3, :3] - turns.as_matrix()).max() < limit
    assert image_numbers(demo) == list(range(10)) and meta["timestamp_ns"].attrs["clock"] == "phone-unix"


@pytest.mark.parametrize("up, turned", [("x", "z"), ("-x", "z"), ("-y", "y"), ("-z", "z"), ("y", "y"), ("z", "z")])
def test_a_world_is_turned_until_y_or_z_is_up(takeset, tmp_path, up, turned):
    own = Own(tmp_path / "take", [f"{number}.png" for number in range(10)])
    axis = np.zeros(3)
    axis["xyz".index(up[-1])] = -1 if up[0] == "-" else 1
    # The phone is lifted by a meter in a second.
    lines = [f"{t} " + " ".join(str(float(v)) for v in [*(t * axis), 0, 0, 0, 1]) for t in np.arange(0, 1.0, 0.05)]
    own.table("p.txt", lines).describe(
        images={"camera_image": {"files": "img/*.png", "times": {"rate": 12}}}, pose={"table": "p.txt", "layout": "tum", "world-up": up, "axes": "arkit"})
    entry, demo, _ = converted(takeset, own.root, tmp_path / "made")
    assert demo["obs/pose"].attrs["world_axes"].startswith(f"{turned} up") and finding(entry, "times-assumed")
    lifted = demo["obs/pose"][-1, :3] - demo["obs/pose"][0, :3]
    assert lifted["xyz".index(turned)] == pytest.approx(9 / 12, abs=1e-5) and np.abs(lifted).sum() == pytest.approx(9 / 12, abs=1e-5)
    assert np.linalg.det(matrices(demo["obs/pose"][:1])[0, :3, :3]) == pytest.approx(1)


# Names or lines, and the number of the image and the time in milliseconds of each row that they must give.
PAIRINGS = {
    "names in the order of numbers": (["f2.png", "f10.png", "f1.png"], None, {"rate": 10}, [(2, 0), (0, 100), (1, 900)]),
    "a gap in the numbers": (["000003.png", "000004.png", "000007.png"], None, {"rate": 10}, [(0, 0), (1, 100), (2, 400)]),
    "times in names with other numbers": (["cam0_12.5.png", "cam0_12.75.png", "cam0_9.25.png"], None, "name", [(2, 9250), (0, 12500), (1, 12750)]),
    "lines name files": (["a.png", "b.png", "c.png"], ["3.5,img/c.png", "1.5,img/a.png", "2.5,img/b.png"], "t.csv", [(0, 1500), (1, 2500), (2, 3500)]),
    "lines name files without folder and ending": (["a.png", "b.png", "c.png"], ["file;t", "a;1,5", "b;2,5", "c;3,5"], {"table": "t.csv", "time": "t"}, [(0, 1500), (1, 2500), (2, 3500)]),
    "a line for each number": (["0.png", "1.png", "2.png"], ["1.5", "2.5", "3.5"], "t.csv", [(0, 1500), (1, 2500), (2, 3500)]),
    "the first image is missing": (["1.png", "2.png"], ["1.5", "2.5", "3.5"], "t.csv", None),
    "numbers from 0, one is missing": (["0.png", "2.png", "3.png"], ["1.5", "2.5", "3.5", "4.5"], "t.csv", [(0, 1500), (1, 3500), (2, 4500)]),
    "more images than times": (["0.png", "1.png", "2.png"], ["1.5", "2.5"], "t.csv", None),
    "one image has no line": (["a.png", "b.png", "c.png", "d.png"], ["1.5\ta.png", "2.5\tb.png", "3.5\tc.png"], "t.csv", [(0, 1500), (1, 2500), (2, 3500)]),
    "names of Python's floats": (["0.8.png", "0.85.png", "0.9.png", "1.0.png", "1.05.png"], ["0.8", "0.85", "0.9", "1.0", "1.05"], "t.csv", [(0, 800), (1, 850), (2, 900), (3, 1000), (4, 1050)]),
    "the same names, without a table": (["0.8.png", "0.85.png", "0.9.png", "1.0.png", "1.05.png"], None, "name", [(0, 800), (1, 850), (2, 900), (3, 1000), (4, 1050)]),
    "times that are names, one missing on each side": (["i_1000.png", "i_1100.png", "i_1300.png", "i_1400.png"], ["1000", "1100", "1200", "1300"], {"table": "t.csv", "time-unit": "ms"}, [(0, 1000), (1, 1100), (2, 1300)]),
    "a frame column that counts from another number": (["000000.png", "000001.png", "000002.png"], ["t,frame", "1.5,2", "2.5,3", "3.5,4"], "t.csv", None),
    "a frame column and a flag": (["000000.png", "000001.png", "000002.png"], ["t,open,frame", "1.5,0,0", "2.5,1,2", "3.5,0,1"], "t.csv", [(0, 1500), (2, 2500), (1, 3500)]),
    "the index of pandas, and files from 1": (["1.png", "2.png", "3.png"], [",t", "0,1.5", "1,2.5", "2,3.5"], {"table": "t.csv", "time": "t"}, [(0, 1500), (1, 2500), (2, 3500)]),
    "a copy beside a missing file": (["000000.png", "000001.png", "000001 copy.png"], ["1.5", "2.5", "3.5"], "t.csv", None),
    "an unreadable line": (["000000.png", "000001.png"], ["1.5", "oops", "3.5"], "t.csv", None),
    "hidden files of another system": (["000000.png", "._000000.png", "000001.png"], ["1.5", "2.5"], "t.csv", [(0, 1500), (2, 2500)]),
    "two numbers, of which one counts": (["000007_12.5.png", "000008_13.5.png", "000009_14.25.png"], None, "name", [(0, 12500), (1, 13500), (2, 14250)]),
    "padded names and a column of numbers": (["000000.png", "000001.png", "000002.png"], ["frame,t", "0,0.0", "1,1.0", "2,3.0"], {"table": "t.csv", "time": "t", "file": "frame"}, [(0, 0), (1, 1000), (2, 3000)]),
    "times that are numbers of files by chance": (["006.png", "007.png", "008.png"], ["5", "6", "7"], "t.csv", [(0, 5000), (1, 6000), (2, 7000)]),
    "two columns of numbers": (["0.png", "1.png", "2.png"], ["left,t,n", "2,1.5,0", "1,2.5,1", "0,3.5,2"], {"table": "t.csv", "time": "t"}, None),
    "a column of numbers that runs backwards": (["0.png", "1.png", "2.png"], ["left,t", "2,1.5", "1,2.5", "0,3.5"], {"table": "t.csv", "time": "t"}, None),
    "a named column that counts from another number": (["1.png", "2.png", "3.png"], ["n,t", "0,1.5", "1,2.5", "2,3.5"], {"table": "t.csv", "time": "t", "file": "n"}, None),
    "a column of times that is not named": (["0.png", "1.png", "2.png"], [",t", "0,1.5", "1,2.5", "2,3.5"], "t.csv", None),
    "names with a folder and no ending": (["f_0.png", "f_1.png", "f_2.png"], ["1.5,img/f_0", "3.5,img/f_2", "2.5,img/f_1"], "t.csv", [(0, 1500), (1, 2500), (2, 3500)]),
    "names of another folder": (["f_0.png", "f_1.png", "f_2.png"], ["1.5,raw/f_0.png", "2.5,raw/f_2.png", "3.5,raw/f_1.png"], "t.csv", None),
    "a doubled line": (["0.png", "1.png", "2.png", "3.png"], ["1.5", "2.5", "2.5", "3.5"], "t.csv", None),
    "a doubled number": (["0.png", "1.png", "2.png", "3.png"], ["t,id", "1.5,0", "2.5,1", "2.6,1", "3.5,2"], "t.csv", None),
    "files from 2": (["2.png", "3.png", "4.png"], ["1.5", "2.5", "3.5", "4.5"], "t.csv", None),
    "frames that are left": (["0.png", "1.png", "2.png"], ["t,frames_left", "1.5,2", "2.5,1", "3.5,0"], "t.csv", None),
    "lines from the last to the first": (["0.png", "1.png", "2.png"], ["t,remaining", "3.5,0", "2.5,1", "1.5,2"], "t.csv", None),
    "names with a step and a count of lines": (["0.png", "2.png", "4.png", "6.png"], ["t,frame", "1.5,0", "2.5,1", "3.5,2", "4.5,3"], "t.csv", None),
    "numbers with a step": (["00.png", "10.png", "20.png", "30.png"], ["t,id", "1.5,0", "2.5,10", "3.5,20", "4.5,30"], "t.csv", [(0, 1500), (1, 2500), (2, 3500), (3, 4500)]),
    "a number of the file and a countdown": (["0.png", "1.png", "2.png"], ["t,id,left", "1.5,0,2", "2.5,1,1", "3.5,2,0"], "t.csv", [(0, 1500), (1, 2500), (2, 3500)]),
    "a fraction after a comma": (["a.png", "b.png", "c.png"], ["2026-05-04T10:00:00,250", "2026-05-04T10:00:01,500", "2026-05-04T10:00:02,125"],
                                 {"table": "t.csv", "time-unit": "iso8601"}, None),
    "a number that is no number": (["0.png", "1.png", "2.png"], ["1.5,-9223372036854775808", "2.5,0", "3.5,9223372036854775807"], "t.csv", [(0, 1500), (1, 2500), (2, 3500)]),
    "a date and a time": (["a.png", "b.png", "c.png"], ["2026-05-04 10:00:00.25 , a.png", "2026-05-04T10:00:01.25Z , b.png", "2026-05-04T12:00:02.25+02:00 , c.png"],
                          {"table": "t.csv", "time-unit": "iso8601"}, [(0, 1777888800250), (1, 1777888801250), (2, 1777888802250)]),
}


@pytest.mark.parametrize("case", PAIRINGS)
def test_images_are_paired_with_their_times(takeset, tmp_path, case):
    names, lines, times, expected = PAIRINGS[case]
    own = Own(tmp_path / "take", names)
    if lines:
        own.table("t.csv", lines)
    own.describe(images={"camera_image": {"files": "img/*.png", "times": times}})
    if expected is None:
        converted(takeset, own.root, tmp_path / "made", check=3)
        record = manifest(tmp_path / "made/out")["record"]
        (entry,) = record["takes"]
        assert problem(entry)["code"] == "csv-invalid" and ("certain" in problem(entry)["message"] or case in ("a column of times that is not named", "a fraction after a comma"))
        return
    entry, demo, meta = converted(takeset, own.root, tmp_path / "made")
    assert list(zip(image_numbers(demo), (absolute(meta) // 1_000_000).tolist())) == expected
    assert ("times-assumed" in codes(entry)) == (times == {"rate": 10})


def test_two_lists_in_one_table_are_told_apart_by_their_folders(takeset, tmp_path):
    """As TUM's associations: the depth of each line is the one that is named beside it."""
    own = Own(tmp_path / "take", [f"{number}.png" for number in range(6)])
    (own.root / "depth").mkdir()
    for number in range(6):
        Image.fromarray(np.full((6, 8), 1000 + number, np.uint16)).save(own.root / f"depth/{number}.png")
    own.table("both.txt", [f"{number / 10} img/{number}.png {number / 10} depth/{5 - number}.png" for number in range(6)])
    own.describe(images={"camera_image": {"files": "img/*.png", "times": "both.txt"}}, depth={"camera_depth": {"files": "depth/*.png", "times": {"table": "both.txt", "time": 3}}})
    _, demo, _ = converted(takeset, own.root, tmp_path / "made")
    assert image_numbers(demo) == list(range(6)) and demo["obs/camera_depth"][:, 0, 0, 0].tolist() == [1005, 1004, 1003, 1002, 1001, 1000]


def test_columns_are_found_by_their_headings(takeset, tmp_path):
    own = Own(tmp_path / "take", [f"{number / 10}.png" for number in range(4)])

    def gripper(lines, columns, check=0):
        own.table("g.csv", lines).describe(images=IMAGES, streams={"gripper": {"table": "g.csv", "columns": columns}})
        made = converted(takeset, own.root, tmp_path / f"made{len(list(tmp_path.iterdir()))}", check=check)
        return made[1]["obs/gripper"] if check == 0 else made.stderr

    quoted = ['"t","note, with a comma","width [mm]"'] + [f'{number / 10},"a, {900 + number}, b",{number}' for number in range(4)]
    assert gripper(quoted, ["width"])[:, 0].tolist() == [0, 1, 2, 3]
    ros = ["t;p[0];p[1];p[2]"] + [f"0,{number};1,5;{number};7" for number in range(4)]
    assert gripper(ros, ["p[1]", "p[0]"])[:].tolist() == [[number, 1.5] for number in range(4)]
    assert "p[3]" in gripper(ros, ["p[3]"], 3) and "t, p[0], p[1], p[2]" in gripper(ros, ["p"], 3)
    numeric = ["t,a,3"] + [f"{number / 10},{number},9" for number in range(4)]
    assert gripper(numeric, ["a"])[:, 0].tolist() == [0, 1, 2, 3]
    assert "expected 3 fields, found 4" in gripper([*numeric, "0.4,1,2,3"], ["a"], 3) and "line 4, column a" in gripper([*numeric[:3], "0.2,x,9"], ["a"], 3)


@pytest.mark.parametrize(
    "table, pose, words",
    [
        (["# timestamp tx ty tz qw qx qy qz", "1 0 0 0 1 0 0 0"], {"layout": "tum"}, "another order"),
        (["t [s];x [mm];y;z;rx;ry;rz", "1;0;0;0;0;0;0"], {"columns": {"x": "x", "y": "y", "z": "z", "rx": "rx", "ry": "ry", "rz": "rz"}}, "unit: mm"),
        (["t;x;y;z;roll [deg];pitch;yaw", "1;0;0;0;0;0;0"], {"columns": {"x": "x", "y": "y", "z": "z", "roll": "roll", "pitch": "pitch", "yaw": "yaw"}}, "angle-unit: deg"),
        (["timestamp [ns];x;y;z;rx;ry;rz", "1;0;0;0;0;0;0"], {"columns": {"x": "x", "y": "y", "z": "z", "rx": "rx", "ry": "ry", "rz": "rz"}}, "time-unit: ns"),
        (["t,x,y,z", "1,0,0,0,0,0,0,1"], {"layout": "tum"}, "4 headings"),
        (["1e-9223372036854775808,0,0,0,0,0,0,1"], {"layout": "tum", "time-unit": "ms"}, "line 1"),
    ],
)
def test_headings_that_contradict_the_description_fail_the_take(takeset, tmp_path, table, pose, words):
    own = Own(tmp_path / "take", ["1.png", "2.png"])
    own.table("p.csv", table).describe(images=IMAGES, pose=pose | {"table": "p.csv"})
    assert words in converted(takeset, own.root, tmp_path / "made", check=3).stderr


def test_a_heading_of_a_stream_has_its_unit(takeset, tmp_path):
    own = Own(tmp_path / "take", ["1.png", "2.png"])
    own.table("j.csv", ["t,j1 [deg],j2 [deg]", "1,30,40", "2,31,41"])
    streams = {"arm": {"table": "j.csv", "unit": "rad"}}
    own.describe(images=IMAGES, streams=streams)
    assert "write unit: deg" in converted(takeset, own.root, tmp_path / "other", check=3).stderr
    for unit in "deg", "degrees", "as recorded":
        streams["arm"]["unit"] = unit
        own.describe(images=IMAGES, streams=streams)
        assert converted(takeset, own.root, tmp_path / unit)[1]["obs/arm"].attrs["unit"] == unit
    (own.root / "takeset.yaml").unlink()
    assert "unit: deg" in takeset("init", "--for", "folder", own.root, check=0).stdout


def test_depth_of_the_same_names_is_drafted_with_the_times_of_the_images(takeset, tmp_path):
    root = tmp_path / "realsense"
    for folder in "color", "depth":
        (root / folder).mkdir(parents=True)
    lines = ["frame,time [s]"]
    for number in range(123, 131):
        lines.append(f"{number:06d}.png,{1_718_000_000 + number / 30:.4f}")
        Image.fromarray(np.full((24, 32, 3), number, np.uint8)).save(root / f"color/{number:06d}.png")
        Image.fromarray(np.full((6, 8), number, np.uint16)).save(root / f"depth/{number:06d}.png")
    (root / "frames.csv").write_text("\n".join(lines) + "\n")
    takeset("init", "--for", "folder", root, "--output", root / "takeset.yaml", check=0)
    _, demo, _ = converted(takeset, root, tmp_path / "made")
    assert demo["obs/camera_image"][:, 0, 0, 0].tolist() == list(range(123, 131))
    assert demo["obs/camera_depth"][:, 0, 0, 0].tolist() == list(range(123, 131)) and demo["obs/camera_depth"].attrs["unit"] == "mm"


def test_hostile_descriptions_harm_no_other_take(takeset, folders, tmp_path):
    for name, description in {
        "least": "images: {camera_image: {video: cam.mp4, start: -9223372036854775808}}",
        "deep": "images: {camera_image: {files: \"" + "a/" * 30_000 + "*.png\", times: name}}",
        "stars": "images: {camera_image: {files: \"" + "*?" * 500 + "*.png\", times: name}}",
    }.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "takeset.yaml").write_text(description)
        (tmp_path / "in" / name / ("a" * 200 + ".png")).write_bytes(b"")
    shutil.copytree(folders / "robot", tmp_path / "in/robot")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    entries = {entry["id"]: entry for entry in manifest(tmp_path / "out")["record"]["takes"]}
    assert [name for name, entry in entries.items() if entry["outcome"] == "written"] == ["robot"] and len(entries) == 4
    assert all(len(entry["reason"]) < 1000 for entry in entries.values() if entry["outcome"] == "failed")


def test_a_video_with_fewer_times_than_frames_fails(takeset, folders, tmp_path):
    """Nothing says which of its frames have none."""
    take = shutil.copytree(folders / "arm", tmp_path / "take")
    lines = (take / "frames.csv").read_text().splitlines()
    (take / "frames.csv").write_text("\n".join(lines[:1] + lines[2:]) + "\n")
    assert "60 frames" in converted(takeset, take, tmp_path / "made", check=3).stderr


def test_images_beyond_the_poses_have_no_row_and_clocks_that_differ_are_said(takeset, tmp_path):
    own = Own(tmp_path / "take", [f"{number / 10}.png" for number in range(10)])
    own.table("p.txt", [f"{t} {t} 0 0 0 0 0 1" for t in (0.3, 0.4, 0.5, 0.6)]).describe(images=IMAGES, pose={"table": "p.txt", "layout": "tum", "axes": "ros"})
    entry, demo, _ = converted(takeset, own.root, tmp_path / "made")
    assert image_numbers(demo) == [3, 4, 5, 6] and finding(entry, "pose-missing")["count"] == 6
    own.table("p.txt", [f"{t} {t} 0 0 0 0 0 1" for t in (300, 400, 500, 600)])
    converted(takeset, own.root, tmp_path / "other", check=3)
    (entry,) = manifest(tmp_path / "other/out")["record"]["takes"]
    assert problem(entry)["code"] == "poses-missing" and "units or clocks" in problem(entry)["message"] and "300" in problem(entry)["message"]


def test_two_cameras_and_their_depth(takeset, tmp_path):
    """A second camera has times of its own, and depth has the scale that the description says."""
    own = Own(tmp_path / "take", [f"{number / 10}.png" for number in range(10)])
    (own.root / "wrist").mkdir()
    (own.root / "d").mkdir()
    for number in range(20):
        Image.fromarray(np.full((10, 12, 3), 3 * number, np.uint8)).save(own.root / f"wrist/w_{10 + 50 * number}.jpg")
        Image.fromarray(np.full((6, 8), 1000 + number, np.uint16)).save(own.root / f"d/{number}.png")
    own.table("d.csv", ["when [ms],map"] + [f"{50 * number + 5},{number}.png" for number in range(20)])
    own.describe(
        images=IMAGES | {"wrist_image": {"files": "wrist/*.jpg", "times": "name"}}, time={"unit": "ms"},
        depth={"camera_depth": {"files": "d/*.png", "times": {"table": "d.csv", "time": "when"}, "scale": 0.25, "unit": "mm"}})
    # Names of the first camera are seconds, and the unit is milliseconds for both: one image in ten thousand would be the same.
    for file in own.files:
        file.rename(file.with_name(f"{round(float(file.stem) * 1000)}.png"))
    entry, demo, meta = converted(takeset, own.root, tmp_path / "made")
    assert demo["obs/wrist_image"].shape == (10, 10, 12, 3)
    assert np.abs(demo["obs/wrist_image"][:, 5, 5, 0].astype(int) - np.arange(0, 60, 6)).max() <= 2
    assert demo["obs/camera_depth"][:, 0, 0, 0] == pytest.approx((1000 + np.arange(0, 20, 2)) * 0.00025, rel=1e-6)
    assert not math.isnan(float(demo["obs/camera_depth"][0, 0, 0, 0]))


EXAMPLES = {"tum-rgbd": "tum", "euroc": "euroc", "kitti": "kitti", "realsense": "realsense", "robot-log": "robot", "arm-video": "arm"}


def test_the_page_has_every_example():
    files = {path.stem for path in (ROOT / "examples/folders").glob("*.yaml")}
    page = (ROOT / "examples/folders/README.md").read_text()
    assert files == set(EXAMPLES) and all(f"[{name}.yaml]({name}.yaml)" in page for name in files)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_describe_such_folders(takeset, folders, tmp_path, example):
    """By the example beside the pipeline, rows are as by the description that the folder came with, but for cameras of other makes."""
    layout = EXAMPLES[example]
    expected = converted(takeset, folders / layout, tmp_path / "own")
    take = shutil.copytree(folders / layout, tmp_path / layout)
    (take / "takeset.yaml").unlink()
    reader = json.dumps({"name": "folder", "description": str(ROOT / f"examples/folders/{example}.yaml")})
    entry, demo, meta = converted(takeset, take, tmp_path / "example", PLAIN + f"reader: {reader}\n")
    assert absolute(meta).tolist() == absolute(expected[2]).tolist() and {"distortion-ignored", "intrinsics-absent"} >= set(codes(entry)) - {"intrinsics-scaled", "intrinsics-implausible"}
    names = set(expected[1]["obs"]) - ({"pose"} if layout == "euroc" else set())
    assert all(np.array_equal(demo["obs"][name][:], expected[1]["obs"][name][:], equal_nan=name != "camera_image") for name in names)


def test_a_draft_asks_only_what_nobody_can_see(takeset, folders, tmp_path):
    """With its questions answered as the folder's own description does, a draft gives the same rows."""
    for layout in LAYOUTS:
        take = shutil.copytree(folders / layout, tmp_path / layout)
        own = yaml.safe_load((take / "takeset.yaml").read_text())
        (take / "takeset.yaml").unlink()
        done = takeset("inspect", take)
        if layout != "arm":  # its video is a take of its own
            assert done.returncode == 3 and "takeset init --for folder" in done.stdout
        takeset("init", "--for", "folder", take, "--output", take / "takeset.yaml", check=0)
        text = (take / "takeset.yaml").read_text()
        assert text == takeset("init", "--for", "folder", take, check=0).stdout and "# ?" in text
        draft = yaml.safe_load(text)
        assert draft["images"]["camera_image"].get("files") == own["images"]["camera_image"].get("files")
        # What it asks: axes, world, the direction and the body of poses, intrinsics, the units of depth and IMU.
        draft["pose"] |= {key: own["pose"][key] for key in ("axes", "world-up", "maps", "camera-in-body") if key in own["pose"]}
        draft["cameras"] = own["cameras"]
        for key in ("depth", "imu"):
            assert (key in draft) == (key in own)
        if layout == "tum":
            draft["depth"]["camera_depth"]["scale"] = 0.0002
        if "imu" in own:
            draft["imu"] |= {key: own["imu"][key] for key in ("accel-unit", "gyro-unit") if key in own["imu"]}
        (take / "takeset.yaml").write_text(yaml.safe_dump(draft))
        expected, made = converted(takeset, folders / layout, tmp_path / f"own-{layout}"), converted(takeset, take, tmp_path / f"drafted-{layout}")
        assert absolute(made[2]).tolist() == absolute(expected[2]).tolist(), layout
        for name in (name for name in expected[1]["obs"] if not name.startswith("gripper")):
            assert np.array_equal(made[1]["obs"][name][:], expected[1]["obs"][name][:]), (layout, name)


def test_a_folder_without_images_has_no_draft(takeset, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("nothing")
    assert "has no images" in takeset("init", "--for", "folder", tmp_path / "notes", check=64).stderr
    assert "name the folder" in takeset("init", "--for", "folder", check=64).stderr
    assert "only --for folder" in takeset("init", "--for", "act", tmp_path, check=64).stderr
    assert "takeset init" not in takeset("inspect", tmp_path / "notes", check=3).stdout
