"""Bad inputs and faults: each gives a sentence and the right exit code, loses nothing, and stops no other take."""

import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import BINARY, demos, manifest, take

V1, V2 = "session_2026-01-31_120000", "session_2026-02-01_130000"


def fails(takeset, sessions, output, code, *words, take_id=V1):
    """The damaged take fails with this code and these words; the other one is written; the command exits with 3."""
    done = takeset.convert(sessions, output=output, check=3)
    record = take(output, take_id)
    assert record["outcome"] == "failed"
    assert record["findings"][-1]["code"] == code and record["findings"][-1]["severity"] == "error"
    for word in words:
        assert word in record["reason"], record["reason"]
    assert record["reason"] in done.stderr  # the person at the terminal reads the same sentence
    other = V2 if take_id == V1 else V1
    assert take(output, other)["outcome"] == "written"
    assert list(demos(output)) == [other]
    assert sorted(p.name for p in (output / "episodes").iterdir()) == [f"{other}.h5"]
    assert takeset("verify", output).returncode == 0
    inspected = takeset("inspect", sessions, "--json", check=3)
    told = {t["id"]: t for t in json.loads(inspected.stdout)["takes"]}
    assert told[take_id]["would_be"] == "failed" and told[other]["would_be"] == "written"


def tree(root):
    return {p.relative_to(root): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


# Inputs that are not there


def test_a_missing_input_creates_nothing(takeset, tmp_path):
    done = takeset("run", tmp_path / "nowhere", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "no such file or directory" in done.stderr and "nowhere" in done.stderr
    assert not (tmp_path / "out").exists()
    assert takeset("inspect", tmp_path / "nowhere").returncode == 1
    assert takeset("plan", tmp_path / "nowhere").returncode == 1


def test_a_file_instead_of_a_session_creates_nothing(takeset, tmp_path):
    (tmp_path / "notes.txt").write_text("not a session")
    done = takeset("run", tmp_path / "notes.txt", "--output", tmp_path / "out")
    assert done.returncode == 1 and "expected a session, an archive of one" in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_empty_directory_has_its_own_entry(takeset, tmp_path):
    (tmp_path / "empty").mkdir()
    takeset.convert(tmp_path / "empty", output=tmp_path / "out", check=3)
    record = take(tmp_path / "out", "empty")
    assert record["findings"][0]["code"] == "no-take-found" and "holds no take" in record["reason"]


def test_a_missing_input_does_not_stop_the_others(takeset, sessions, tmp_path):
    takeset.convert(sessions, tmp_path / "nowhere", output=tmp_path / "out", check=3)
    assert take(tmp_path / "out", "nowhere")["findings"][0]["code"] == "input-missing"
    assert len(demos(tmp_path / "out")) == 2


def test_folders_with_rgb_that_are_no_sessions_are_passed_over(takeset, sessions, tmp_path):
    metadata = (sessions / V1 / "metadata.json").read_bytes()
    picture = (sessions / V1 / "rgb/000003.jpg").read_bytes()
    others = {"holiday": {"rgb/beach.jpg": picture, "rgb/3.jpg": picture}, "album": {"rgb/a.png": b"", "metadata.json": b'{"album": 1}'}}
    lost = {"session_lost": {"rgb/notes.txt": b""}, "told": {"rgb/notes.txt": b"", "metadata.json": metadata}, "pictures": {"rgb/000003.jpg": picture}}
    for name, files in {**others, **lost}.items():
        for path, data in files.items():
            (tmp_path / "in" / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / name / path).write_bytes(data)
    takeset.convert(tmp_path / "in", sessions, output=tmp_path / "out", check=3)
    takes = {t["id"]: (t["reader"], t["outcome"]) for t in manifest(tmp_path / "out")["record"]["takes"]}
    # What may be a session of which the pictures are lost is not passed over in silence.
    expected = {name: ("stack-session", "failed") for name in lost} | {name: ("stack-session", "written") for name in (V1, V2)}
    assert takes == expected
    takeset.convert(tmp_path / "in/holiday", output=tmp_path / "alone", check=3)
    assert [f["code"] for f in take(tmp_path / "alone", "holiday")["findings"]] == ["no-take-found"]


# Sessions that are damaged


@pytest.mark.parametrize(
    "name, contents, code, words",
    [
        ("poses.json", b"poses? none", "json-type", ["poses.json", "expected a list of poses"]),
        ("poses.json", b"", "json-invalid", ["poses.json", "line 1, column 1"]),
        ("poses.json", b'[{"rgbIndex": 0, "timest', "json-invalid", ["poses.json", "the file ends", "column"]),
        ("poses.json", b'[{"rgbIndex": 0, "timestamp": "soon"}]', "json-type", ["[0].timestamp", "expected a number, found text"]),
        ("poses.json", b'[{"rgbIndex": 0, "timestamp": 1, "transform": [[1, 0], [0, 1]]}]', "json-type", ["transform[0]", "four numbers, found 2"]),
        ("poses.json", b"[" * 5000, "json-type", ["expected an object"]),
        ("metadata.json", b"{]", "json-invalid", ["metadata.json", "line 1, column 2"]),
        ("metadata.json", b'["rgbResolution"]', "json-type", ["metadata.json", "expected an object"]),
    ],
)
def test_json_that_is_broken(takeset, sessions, tmp_path, name, contents, code, words):
    (sessions / V1 / name).write_bytes(contents)
    fails(takeset, sessions, tmp_path / "out", code, *words)


@pytest.mark.parametrize("field", ["rgbResolution", "depthResolution"])
@pytest.mark.parametrize("value", ["big", [640], [640, 480, 3], [640, "480"], [0, 480], [-640, 480], [640.5, 480], [1e300, 480], {"width": 640}, True])
def test_a_resolution_that_is_none_is_told_and_not_used(takeset, sessions, tmp_path, field, value):
    path = sessions / V1 / "metadata.json"
    sound = json.loads(path.read_text())
    path.write_text(json.dumps({key: one for key, one in sound.items() if key != field}))
    takeset.convert(sessions / V1, output=tmp_path / "without")
    path.write_text(json.dumps(sound | {field: value}))
    takeset.convert(sessions, output=tmp_path / "out", check=0)
    record = take(tmp_path / "out", V1)
    (finding,) = [f for f in record["findings"] if f["code"] == "resolution-unusable"]
    assert (finding["severity"], finding["file"], finding["field"]) == ("warning", "metadata.json", f".{field}")
    assert "expected [width, height]" in finding["message"]
    assert record["outcome"] == "written" and record["output"]["samples"] == 30
    (found, _), (expected, _) = demos(tmp_path / "out")[V1], demos(tmp_path / "without")[V1]
    for name in found["obs"]:
        assert np.array_equal(found["obs"][name][:], expected["obs"][name][:]), name
    (inspected,) = json.loads(takeset("inspect", sessions / V1, "--json", check=0).stdout)["takes"]
    assert [f["code"] for f in inspected["findings"]].count("resolution-unusable") == 1


@pytest.mark.parametrize("count", [2**53, 2**53 + 1, 2**63, 10**30, 1e19])
def test_counts_of_2_to_the_53_and_more_are_told_and_not_recorded(takeset, sessions, tmp_path, count):
    path = sessions / V1 / "metadata.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"rgbFrameCount": count, "poseCount": 30}))
    takeset.convert(sessions, output=tmp_path / "out", check=0)
    record = take(tmp_path / "out", V1)
    assert [f["severity"] for f in record["findings"] if f["code"] == "count-unusable"] == ["warning"]
    assert "rgbFrameCount" not in record["details"]["declared"] and record["details"]["declared"]["poseCount"] == 30
    assert all(number < 2**53 for number in map(int, re.findall(r"(?<![\w.\"])[0-9]+(?![\w.\"])", json.dumps(record))))


def test_encoders_that_are_broken(takeset, sessions, tmp_path):
    (sessions / V2 / "encoders.json").write_text('[{"timestamp": 1.0, "esp_timestamp_ms": -4}]')
    fails(takeset, sessions, tmp_path / "out", "json-type", "encoders.json", "[0].esp_timestamp_ms", "found -4", take_id=V2)


def test_a_cut_pose_file_gives_its_whole_entries(takeset, sessions, tmp_path):
    path = sessions / V1 / "poses.json"
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    takeset.convert(sessions, output=tmp_path / "out", check=0)
    record = take(tmp_path / "out", V1)
    (finding,) = [f for f in record["findings"] if f["code"] == "poses-truncated"]
    assert "whole entries are used" in finding["message"] and "line" in finding["field"]
    assert 20 <= record["output"]["samples"] < 30


def test_poses_json_that_is_missing(takeset, sessions, tmp_path):
    (sessions / V1 / "poses.json").unlink()
    fails(takeset, sessions, tmp_path / "out", "poses-missing", "no poses.json", "30 pictures")


def test_a_file_where_the_pictures_should_be(takeset, sessions, tmp_path):
    shutil.rmtree(sessions / V1 / "rgb")
    (sessions / V1 / "rgb").write_text("")
    fails(takeset, sessions, tmp_path / "out", "too-few-images", "0 of the 30 pictures")


DAMAGES = {
    "empty": (lambda data: b"", "the file is empty"),
    "cut": (lambda data: data[: len(data) // 2], ""),
    "text": (lambda data: b"<html>not found</html>", "FF D8 FF"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_picture_that_cannot_be_decoded_is_a_row_with_its_mask_off(takeset, sessions, tmp_path, damage):
    change, words = DAMAGES[damage]
    for number in 0, 7:
        path = sessions / V1 / f"rgb/{number:06d}.jpg"
        path.write_bytes(change(path.read_bytes()))
    takeset.convert(sessions, output=tmp_path / "out", check=0)
    demo, meta = demos(tmp_path / "out")[V1]
    valid = meta["streams/camera_image/valid"][:]
    assert list(np.flatnonzero(valid == 0)) == [0, 7] and len(valid) == 30
    assert not demo["obs/camera_image"][0].any() and not demo["obs/camera_image"][7].any()
    (finding,) = [f for f in take(tmp_path / "out", V1)["findings"] if f["code"] == "image-undecodable"]
    assert finding["count"] == 2 and finding["file"] == "rgb/000000.jpg" and words in finding["message"]
    inspected = json.loads(takeset("inspect", sessions / V1, "--json", check=0).stdout)["takes"][0]
    assert [f["count"] for f in inspected["findings"] if f["code"] == "image-undecodable"] == [2]
    takeset.convert(sessions / V1, output=tmp_path / "alone")
    with h5py.File(tmp_path / "alone/dataset.h5") as f:  # masked rows count for nothing
        assert list(f["mask/train"][:]) == [b"demo_000000"]
        assert f["stats/camera_image/count"][:].tolist() == [28 * 480 * 360] * 3
        assert f["stats/camera_image/min"][:].tolist() == demo["obs/camera_image"][:][valid == 1].min((0, 1, 2)).tolist()


def test_too_many_pictures_that_cannot_be_decoded(takeset, sessions, tmp_path):
    for number in range(7):
        (sessions / V1 / f"rgb/{number:06d}.jpg").write_bytes(b"")
    fails(takeset, sessions, tmp_path / "out", "image-undecodable", "rgb/000000.jpg", "cannot be decoded", "fifth")


def test_pictures_of_two_sizes(takeset, sessions, tmp_path):
    shutil.copy(sessions / V1 / "rgb/000001.jpg", tmp_path / "a.jpg")
    from PIL import Image

    Image.open(tmp_path / "a.jpg").resize((200, 100)).save(sessions / V1 / "rgb/000009.jpg")
    fails(takeset, sessions, tmp_path / "out", "image-size-changed", "rgb/000009.jpg", "200x100", "480x360")


@pytest.mark.parametrize("size", [0, 1000, 64 * 48 * 4 - 1, 64 * 48 * 4 + 4])
def test_a_depth_map_of_the_wrong_size_is_masked(takeset, sessions, tmp_path, size):
    (sessions / V1 / "depth/000002.bin").write_bytes(bytes(size))
    takeset.convert(sessions, output=tmp_path / "out", check=0)
    demo, meta = demos(tmp_path / "out")[V1]
    stream = meta["streams/camera_depth"]
    rows = stream["source_index"][:] == 2
    assert rows.any() and np.array_equal(stream["valid"][:] == 0, rows)
    assert not demo["obs/camera_depth"][:][rows].any() and not demo["obs/camera_depth_valid"][:][rows].any()
    (finding,) = [f for f in take(tmp_path / "out", V1)["findings"] if f["code"] == "depth-wrong-size"]
    assert finding["file"] == "depth/000002.bin" and finding["count"] == 1
    assert f"{size} bytes; expected 12288" in finding["message"]


def test_links_pipes_and_secrets_are_not_followed(takeset, sessions, tmp_path):
    secret = tmp_path / "secret.jpg"
    shutil.copy(sessions / V1 / "rgb/000003.jpg", secret)
    (sessions / V1 / "rgb/000003.jpg").unlink()
    (sessions / V1 / "rgb/000003.jpg").symlink_to(secret)
    fails(takeset, sessions, tmp_path / "out", "not-a-regular-file", "rgb/000003.jpg", "symbolic link")
    (sessions / V1 / "rgb/000003.jpg").unlink()
    os.mkfifo(sessions / V1 / "rgb/000003.jpg")
    fails(takeset, sessions, tmp_path / "out2", "not-a-regular-file", "rgb/000003.jpg", "a pipe")


def test_two_takes_of_one_name_both_get_in(takeset, sessions, tmp_path):
    shutil.copytree(sessions / V1, tmp_path / "more" / V1)
    takeset.convert(sessions, tmp_path / "more", output=tmp_path / "out")
    assert sorted(demos(tmp_path / "out")) == [V1, V1 + "-2", V2]
    assert [f["code"] for f in take(tmp_path / "out", V1 + "-2")["findings"]] == ["duplicate-id"]
    again = takeset.convert(sessions, tmp_path / "more", output=tmp_path / "out")
    assert "nothing to do" in again.stdout
    # Asked for alone, the second keeps its name and does not take the first one's place.
    takeset.convert(tmp_path / "more", output=tmp_path / "out")
    assert sorted(demos(tmp_path / "out")) == [V1, V1 + "-2", V2]


def test_inputs_are_never_touched(takeset, sessions, tmp_path):
    (sessions / V1 / "rgb/000001.jpg").write_bytes(b"")
    before = tree(sessions)
    takeset.convert(sessions, output=tmp_path / "out")
    takeset("inspect", sessions)
    assert tree(sessions) == before


def test_stopping_at_the_first_failure(takeset, sessions, tmp_path):
    (sessions / V1 / "poses.json").write_text("{}")
    takeset.convert(sessions, output=tmp_path / "out", check=3, arguments=["--on-failure", "stop", "--jobs", "1"])
    assert [t["outcome"] for t in manifest(tmp_path / "out")["record"]["takes"]] == ["failed"]


# The command


def test_output_inside_an_input_is_refused(takeset, sessions):
    before = tree(sessions)
    for output in sessions, sessions / "out", sessions / V1 / "deep/er", sessions / ".." / sessions.name / "x":
        done = takeset("run", sessions, "--output", output)
        assert done.returncode == 64 and "inside the input" in done.stderr
    assert tree(sessions) == before


def test_mistakes_in_the_pipeline_file_are_named(takeset, sessions, tmp_path):
    pipeline = tmp_path / "p.yaml"
    for text, words in [
        ("version: 1\ntransforms:\n- align: {}\n- decimate: {rte: 30}", 'transforms[1].decimate.rte: unknown option; decimate has "every", "rate"'),
        ("version: 1\ntransforms:\n- blur: {}", 'transforms[0].blur: unknown step "blur"'),
        ("version: 1\nwriter: {hdf5: {compression: lots}}", "writer.hdf5.compression: expected 0 to 9, or fast"),
        ("version: [", "not YAML"),
    ]:
        pipeline.write_text(text)
        for command in ["run", sessions, "--output", tmp_path / "out", "--pipeline", pipeline], ["plan", sessions, "--pipeline", pipeline]:
            done = takeset(*command)
            assert done.returncode == 64 and words in done.stderr, done.stderr
    assert takeset("run", sessions, "--output", tmp_path / "out", "--pipeline", tmp_path / "none.yaml").returncode == 64
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [["run"], ["run", "x"], ["fly"], ["run", "x", "--output", "y", "--jobs", "0"], ["run", "x", "--output", "y", "--rush"]]
)
def test_usage_errors_exit_with_64(takeset, arguments):
    done = takeset(*arguments)
    assert done.returncode == 64 and done.stderr


def test_a_step_that_is_missing_is_named(takeset, sessions, tmp_path):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: []\n")
    takeset.convert(sessions, output=tmp_path / "out", check=3, arguments=["--pipeline", tmp_path / "p.yaml"])
    assert "needs the step align" in take(tmp_path / "out", V1)["reason"]


# The output


def test_an_output_that_is_a_file(takeset, sessions, tmp_path):
    (tmp_path / "out").write_text("precious")
    done = takeset("run", sessions, "--output", tmp_path / "out")
    assert done.returncode == 1 and "output directory" in done.stderr
    assert (tmp_path / "out").read_text() == "precious"


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user to be refused")
def test_an_output_that_is_not_writable(sessions, tmp_path_factory):
    # Outside of pytest's own directories, which only their owner may enter.
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        shutil.copytree(sessions, root + "/sessions")
        shutil.copy(BINARY, root + "/takeset")
        os.mkdir(root + "/out", mode=0o755)
        for output in root + "/out", root + "/out/new":
            done = subprocess.run(
                [root + "/takeset", "run", root + "/sessions", "--output", output], capture_output=True, text=True, preexec_fn=as_nobody
            )
            assert done.returncode == 1 and "Permission denied" in done.stderr, done.stderr
        assert os.listdir(root + "/out") == []


def test_a_file_size_limit_stands_for_a_full_disk(takeset, sessions, tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))

    done = takeset("run", sessions, "--output", tmp_path / "out", preexec_fn=limit)
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr and "File too large" in done.stderr
    assert list((tmp_path / "out/episodes").glob("*")) == []  # nothing partial, not even under another name
    assert not (tmp_path / "out/manifest.json").exists()
    takeset.convert(sessions, output=tmp_path / "out")
    takeset("verify", tmp_path / "out", check=0)


def mount_tmpfs(path, size):
    path.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(path).encode(), b"tmpfs", 0, f"size={size}".encode()) != 0:
        pytest.skip("mounting a tmpfs is not allowed here")
    return lambda: libc.umount2(str(path).encode(), 2)


def test_a_full_disk_stops_the_run_and_keeps_what_is_sealed(takeset, sessions, tmp_path):
    unmount = mount_tmpfs(tmp_path / "disk", "24m")  # room for the first take, not for the second
    try:
        done = takeset("run", sessions, "--output", tmp_path / "disk/out", "--jobs", "1")
        assert done.returncode == 1, done.stderr
        assert "No space left on device" in done.stderr and "MB are free" in done.stderr
        assert "infinite loop" not in done.stderr
        episodes = [p.name for p in (tmp_path / "disk/out/episodes").iterdir()]
        assert episodes == [f"{V1}.h5"]
        takeset("verify", tmp_path / "disk/out/episodes" / f"{V1}.h5", check=0)
        # With room again the same command resumes: the first take is not rebuilt.
        shutil.copytree(tmp_path / "disk/out", tmp_path / "out", copy_function=shutil.copy2)
    finally:
        unmount()
    takeset.convert(sessions, output=tmp_path / "out")
    assert len(demos(tmp_path / "out")) == 2


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_nothing_half_written(takeset, tmp_path, number, code):
    takes = tmp_path / "takes"
    for index in range(6):
        takeset.simulate(takes / f"t{index}", "--seconds", 1, "--size", "480x360", "--depth-size", "128x96", "--seed", index)
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align]\nwriter: {hdf5: {compression: 9, image-compression: 9}}\n")
    command = [BINARY, "run", takes, "--output", tmp_path / "out", "--pipeline", tmp_path / "p.yaml"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.time() + 60
    while time.time() < deadline and not list((tmp_path / "out/episodes").glob("*.h5")):
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code, errors
    assert "interrupted" in errors
    left = list((tmp_path / "out/episodes").iterdir())
    assert left and all(p.suffix == ".h5" and not p.name.startswith(".") for p in left)
    for path in left:
        takeset("verify", path, check=0)


# Damage that must not pass for data


def test_a_lost_beginning_does_not_shift_joints(takeset, sessions, tmp_path):
    session = sessions / V2
    takeset.convert(session, output=tmp_path / "whole")
    for number in range(30):
        (session / f"rgb/{number:06d}.jpg").unlink()
    takeset.convert(session, output=tmp_path / "cut")
    (whole, _), (cut, _) = demos(tmp_path / "whole")[V2], demos(tmp_path / "cut")[V2]
    assert np.array_equal(whole["obs/joints"][30:], cut["obs/joints"][:], equal_nan=True)


def test_a_wild_first_timestamp_does_not_shift_joints(takeset, sessions, tmp_path):
    session = sessions / V2
    takeset.convert(session, output=tmp_path / "whole")
    entries = json.loads((session / "poses.json").read_text())
    entries[7]["timestamp"] -= 1000
    (session / "poses.json").write_text(json.dumps(entries))
    takeset.convert(session, output=tmp_path / "wild")
    (whole, _), (wild, meta) = demos(tmp_path / "whole")[V2], demos(tmp_path / "wild")[V2]
    rows = meta["source_index"][:]
    assert len(rows) == 59 and 7 not in rows
    assert np.array_equal(whole["obs/joints"][:][rows], wild["obs/joints"][:], equal_nan=True)


def test_a_sender_clock_that_runs_off_is_not_used(takeset, sessions, tmp_path):
    takeset.simulate(tmp_path / "long", "--variant", "v2", "--seconds", 8, "--size", "32x24")
    readings = json.loads((tmp_path / "long/encoders.json").read_text())
    for reading in readings:
        reading["esp_timestamp_ms"] = round(reading["esp_timestamp_ms"] * 1.03)
    (tmp_path / "long/encoders.json").write_text(json.dumps(readings))
    takeset.convert(tmp_path / "long", output=tmp_path / "out")
    record = take(tmp_path / "out", "long")
    assert "sender-clock-unusable" in [f["code"] for f in record["findings"]]
    assert [a["method"] for a in record["alignment"] if a["stream"] == "joints"] == ["first-sample+nearest"]


def test_one_wild_timestamp_costs_one_frame(takeset, sessions, tmp_path):
    entries = json.loads((sessions / V1 / "poses.json").read_text())
    entries[5]["timestamp"] += 1000
    (sessions / V1 / "poses.json").write_text(json.dumps(entries))
    takeset.convert(sessions, output=tmp_path / "out")
    _, meta = demos(tmp_path / "out")[V1]
    assert list(meta["source_index"][:]) == [i for i in range(30) if i != 5]
    for entry in entries:
        entry["timestamp"] = 7.0
    (sessions / V1 / "poses.json").write_text(json.dumps(entries))
    fails(takeset, sessions, tmp_path / "out2", "too-few-times", "29 of 30 timestamps")


def test_files_of_nearly_the_right_name_are_not_pictures(takeset, sessions, tmp_path):
    for name in "000003.small.jpg", "000003.JPG", "3.jpg", "._000003.jpg", "000003 copy.jpg":
        shutil.copy(sessions / V1 / "rgb/000009.jpg", sessions / V1 / "rgb" / name)
    takeset.convert(sessions / V1, output=tmp_path / "out")
    paths = [e["path"] for e in take(tmp_path / "out", V1)["inputs"]]
    assert len([p for p in paths if p.startswith("rgb/")]) == 30


def test_a_position_beyond_32_bit_floats_is_no_pose(takeset, sessions, tmp_path):
    entries = json.loads((sessions / V1 / "poses.json").read_text())
    entries[4]["transform"][0][3] = 1e39
    (sessions / V1 / "poses.json").write_text(json.dumps(entries))
    takeset.convert(sessions, output=tmp_path / "out")
    demo, _ = demos(tmp_path / "out")[V1]
    assert demo["obs/pose"].shape[0] == 29 and np.isfinite(demo["obs/pose"][:]).all()


@pytest.mark.parametrize("text", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "yesterday", "1969-12-31T23:59:59Z"])
def test_start_times_that_cannot_be(takeset, sessions, tmp_path, text):
    metadata = json.loads((sessions / V1 / "metadata.json").read_text())
    (sessions / V1 / "metadata.json").write_text(json.dumps({**metadata, "startTime": text}))
    takeset.convert(sessions, output=tmp_path / "out")
    assert "start-time-unreadable" in [f["code"] for f in take(tmp_path / "out", V1)["findings"]]
    takeset("inspect", sessions, check=0)


def test_a_picture_over_the_limit_is_refused_from_its_header(takeset, sessions, tmp_path):
    for path in (sessions / V1 / "rgb").iterdir():
        data = bytearray(path.read_bytes())
        start = data.index(b"\xff\xc0")
        data[start + 5 : start + 9] = bytes([0xFF, 0xDC, 0xFF, 0xDC])  # 65500 x 65500
        path.write_bytes(data)
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align]\n")
    takeset.convert(sessions, output=tmp_path / "out", check=3, arguments=["--pipeline", tmp_path / "p.yaml"])
    assert "65500x65500, over the limit of 8192x8192" in take(tmp_path / "out", V1)["reason"]
    assert take(tmp_path / "out", V2)["outcome"] == "written"
    assert takeset("inspect", sessions / V1).returncode == 3


def test_metadata_of_megabytes_is_refused(takeset, sessions, tmp_path):
    (sessions / V1 / "metadata.json").write_text('{"a": [' + "1," * 600_000 + "1]}")
    fails(takeset, sessions, tmp_path / "out", "input-too-large", "metadata.json", "over the limit of 1048576")


@pytest.mark.parametrize("step", ["split: {seed: -9223372036854775808}", "decimate: {rate: .inf}", "align: {tolerance: .nan}"])
def test_numbers_that_no_option_takes(takeset, sessions, tmp_path, step):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align, " + step + "]\n")
    assert takeset("plan", sessions, "--pipeline", tmp_path / "p.yaml").returncode == 64


@pytest.mark.parametrize("line", ["-5 " + "1 " * 12, "5 nan" + " 1" * 11, "5 1e30" + " 1" * 11, "99999999999999999999" + " 1" * 12])
def test_trajectories_that_cannot_be(takeset, tmp_path, line):
    (tmp_path / "t.txt").write_text(line + "\n")
    done = takeset("simulate", "stack-session", "--output", tmp_path / "s", "--trajectory", tmp_path / "t.txt")
    assert done.returncode == 64 and "line 1" in done.stderr


def test_a_name_that_is_not_text_has_its_entry(takeset, sessions, tmp_path):
    shutil.copytree(sessions / V1, os.fsdecode(os.fsencode(sessions) + b"/bad\xff"))
    takeset.convert(sessions, output=tmp_path / "out", check=3)
    assert len(demos(tmp_path / "out")) == 2
    assert "bad-name" in [f["code"] for t in manifest(tmp_path / "out")["record"]["takes"] for f in t["findings"]]


def test_twins_in_unicode_are_two_takes(takeset, sessions, tmp_path):
    twins = tmp_path / "twins"
    for name in "caf\u00e9", "cafe\u0301":
        shutil.copytree(sessions / V1, twins / name)
    takeset.convert(twins, output=tmp_path / "out")
    assert len(demos(tmp_path / "out")) == 2


def test_the_reason_of_a_failure_does_not_depend_on_timing(takeset, sessions, tmp_path):
    from PIL import Image

    for number, size in (12, (20, 10)), (13, (30, 10)), (22, (40, 10)):
        Image.new("RGB", size).save(sessions / V1 / f"rgb/{number:06d}.jpg")
    for attempt in range(8):
        takeset.convert(sessions / V1, output=tmp_path / f"out{attempt}", check=3, arguments=["--jobs", attempt + 1])
        assert "rgb/000012.jpg: the image is 20x10, the session's first is 480x360" in take(tmp_path / f"out{attempt}", V1)["reason"]


def test_a_preview_of_damaged_takes_keeps_the_exit_code(takeset, sessions, tmp_path):
    (sessions / V1 / "poses.json").write_text("{}")
    takeset("inspect", sessions, "--preview", tmp_path / "sheet.png", check=3)
    assert (tmp_path / "sheet.png").exists()
    takeset("inspect", sessions / V1, "--preview", tmp_path / "none.png", check=3)
