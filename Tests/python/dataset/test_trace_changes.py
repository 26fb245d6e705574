"""takeset trace: interpolated, computed and split rows; damaged rows, changed and vanished files; packed and merged datasets; the page."""

import base64
import hashlib
import io
import json
import os
import re
import shutil

import h5py
import numpy as np
import pytest
import yaml
from archives import zip_of
from outputs import manifest
from PIL import Image
from small_sessions import put, session, transform
from trace_checks import check_whole, held, stored, streams, traced


def converted(takeset, root, takes, steps=None, arguments=()):
    """A dataset of takes by name, by these transforms or the default pipeline."""
    put(root / "in", {f"{name}/{path}": data for name, files in takes.items() for path, data in files.items()})
    if steps is not None:
        (root / "pipeline.yaml").write_text(yaml.safe_dump({"version": 1, "transforms": steps}, sort_keys=False))
        arguments = ["--pipeline", root / "pipeline.yaml", *arguments]
    takeset.convert(root / "in", output=root / "out", arguments=arguments)
    return root / "out"


@pytest.fixture(scope="module")
def takes(takeset, tmp_path_factory):
    """Two sessions by the default pipeline, never changed."""
    return converted(takeset, tmp_path_factory.mktemp("traced"), {"a": session("v1", 12), "b": session("v2", 12, seed=1)})


@pytest.fixture
def out(takeset, takes, tmp_path):
    """A dataset like this one that a test may change, with its takes at their place."""
    shutil.copytree(takes.parent / "in", tmp_path / "in")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    return tmp_path / "out"


# Rows


def test_a_resampled_row_names_both_samples_and_their_weights(takeset, tmp_path):
    out = converted(takeset, tmp_path, {"a": session("v2", 20)}, [{"align": {"method": "linear"}}, {"resample": {"rate": 45}}])
    blended = 0
    for row in range(1, 12, 2):
        trace = traced(takeset, out, "a", row)
        check_whole(out, trace)
        pose = streams(trace)["pose"]
        entries = [json.loads(held(trace, origin)) for origin in pose["origins"]]
        assert sum(origin["weight"] for origin in pose["origins"]) == pytest.approx(1)
        assert [entry["rgbIndex"] for entry in entries] == sorted({pose["source_index"], pose["next_index"]})
        position = sum(o["weight"] * np.array(e["transform"])[:3, 3] for o, e in zip(pose["origins"], entries))
        np.testing.assert_allclose(stored(out, trace, "obs/pose")[:3], position, atol=1e-6)
        blended += len(entries) == 2
        assert [effect["words"] for effect in trace["steps"][2]["effects"] if effect["stream"] is None][0].startswith(f"row {row} is a tick")
    assert blended >= 2


def test_actions_name_the_rows_that_they_are_computed_from(takeset, takes):
    trace = traced(takeset, takes, "a", 4, "--stream", "actions")
    (stream,) = trace["streams"]
    assert stream["computed_from"] == {"streams": ["pose"], "rows": [4, 5]}
    entries = [json.loads(held(trace, origin)) for origin in stream["origins"]]
    assert [(o["stream"], o["row"]) for o in stream["origins"]] == [("pose", 4), ("pose", 5)]
    first, second = (np.array(entry["transform"]) for entry in entries)
    step = np.linalg.inv(first) @ second
    np.testing.assert_allclose(stored(takes, trace, "actions")[:3], step[:3, 3], atol=1e-6)
    assert traced(takeset, takes, "a", -1, "--stream", "actions")["streams"][0]["computed_from"]["rows"] == [11, 11]
    assert trace["reproduced"] is True


def test_steps_say_what_they_did_to_the_row(takeset, tmp_path):
    steps = [
        {"align": {}}, {"decimate": {"every": 2}}, {"crop": {"box": [10, 4, 64, 40]}}, {"rotate": {"degrees": 90}},
        {"resize-image": {"width": 20, "height": 32}}, {"pose-frame": {"axes": "opencv"}}, {"rename": {"streams": {"camera_image": "wrist"}}},
        {"select": {"streams": ["wrist", "pose"]}}, {"split-episodes": {"at": 0.06}},
    ]
    out = converted(takeset, tmp_path, {"a": session("v1", 12)}, steps)
    trace = traced(takeset, out, "a.1", 1)
    check_whole(out, trace)
    words = {step["name"]: [(e["stream"], e["words"]) for e in step["effects"]] for step in trace["steps"]}
    rows = [step["row"] for step in trace["steps"]]
    # Rows 0, 2, 4, ... of the source at 60 Hz; the second episode starts at 0.06 s or later, with source row 4.
    frame = trace["source_index"]
    assert rows[:3] == [frame, frame, frame // 2] and rows[-1] == 1 and frame == 6
    assert (None, f"row {frame} of 12 is row 3 of 6") in words["decimate"]
    assert ("camera_image", "the box [10, 4, 64, 40] of it, from 96x48 to 64x40") in words["crop"]
    assert ("camera_image", "rotated by 90 degrees clockwise, from 64x40 to 40x64") in words["rotate"]
    assert ("camera_image", "resized from 40x64 to 20x32") in words["resize-image"]
    assert ("wrist", "is what was called camera_image") in words["rename"] and ("camera_depth", "is left out") in words["select"]
    assert any("opencv" in text or "z forward" in text for _, text in words["pose-frame"])
    assert (None, "row 3 of 6 is row 1 of 2") in words["split-episodes"]
    only = traced(takeset, out, "a.1", 1, "--stream", "wrist")
    assert [stream["name"] for stream in only["streams"]] == ["wrist"] and only["streams"][0]["origins"][0]["file"] == f"rgb/{frame:06d}.jpg"
    assert ("camera_image", "the box [10, 4, 64, 40] of it, from 96x48 to 64x40") in [
        (e["stream"], e["words"]) for e in only["steps"][3]["effects"]
    ]
    done = takeset("trace", out, "--episode", "a", "--row", 0, check=64)
    assert "a has 3 episodes; name one of a.0 to a.2" in done.stderr


def test_images_that_are_stored_as_files_are_traced(takeset, tmp_path):
    for form in "jpeg", "png", "jpeg-source":
        root = tmp_path / form
        put(root / "in", session("v1"))
        (root / "p.yaml").write_text(json.dumps({"version": 1, "transforms": ["align"], "writer": {"hdf5": {"image": form}}}))
        takeset.convert(root / "in", output=root / "out", arguments=["--pipeline", root / "p.yaml"])
        trace = traced(takeset, root / "out", "demo_0", 2)
        check_whole(root / "out", trace)
        (origin,) = streams(trace)["camera_image"]["origins"]
        row = stored(root / "out", trace, "obs/camera_image").tobytes()
        source = held(trace, origin)
        assert (row == source) == (form != "png") and streams(trace)["camera_image"]["sha256"] == hashlib.sha256(row).hexdigest()
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(row))), np.asarray(Image.open(io.BytesIO(source))))


# What differs


def test_a_changed_row_is_named(takeset, out):
    with h5py.File(out / "episodes/a.h5", "r+") as file:
        pixels = file["data/demo_0/obs/camera_image"]
        pixels[4, 7, 9, 1] ^= 1
    trace = traced(takeset, out, "a", 4, check=2)
    assert trace["reproduced"] is False and trace["problems"]
    assert trace["difference"]["array"] == "/data/demo_0/obs/camera_image" and trace["difference"]["element"] == [7, 9, 1]
    assert abs(int(trace["difference"]["stored"]) - int(trace["difference"]["recomputed"])) == 1
    assert streams(trace)["pose"]["reproduced"] is True
    # Another row of the same array is as it was.
    assert streams(traced(takeset, out, "a", 5))["camera_image"]["as_recorded"] is True
    text = takeset("trace", out, "--episode", "a", "--row", 4, check=2).stdout
    assert "reproduced  no: /data/demo_0/obs/camera_image[7, 9, 1] is " in text


def test_a_changed_file_is_named(takeset, out):
    path = out.parent / "in/a/rgb/000004.jpg"
    recorded = hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(session("v1", 12)["rgb/000005.jpg"])
    trace = traced(takeset, out, "a", 4, check=2)
    (one,) = [one for one in trace["inputs"] if one["path"] == "rgb/000004.jpg"]
    assert (one["state"], one["sha256"]) == ("changed", recorded) and hashlib.sha256(path.read_bytes()).hexdigest() in one["words"]
    assert trace["reproduced"] is False and trace["problems"] == [] and trace["difference"]["array"].endswith("/obs/camera_image")
    # A row that the file has no part in is proven nevertheless; that another file has another size is said.
    other = traced(takeset, out, "a", 2)
    assert other["reproduced"] is True and other["other_inputs"]["problems"] in ([], ["rgb/000004.jpg has another size than recorded"])


def test_of_a_vanished_take_the_dataset_tells_what_it_knows(takeset, out):
    shutil.rmtree(out.parent / "in/a")
    trace = traced(takeset, out, "a", 4, check=66)
    assert trace["reproduced"] is None and "no longer at" in trace["unavailable"] and trace["problems"] == []
    found = streams(trace)
    assert found["camera_image"]["candidates"] == ["rgb/000004.jpg"] and found["pose"]["candidates"] == ["poses.json"]
    assert found["camera_depth"]["candidates"] == ["depth/000002.bin"]
    assert found["camera_image"]["as_recorded"] is True and found["camera_image"]["source_index"] == 4
    assert {one["state"] for one in trace["inputs"]} == {"missing"}
    assert [step["name"] for step in trace["steps"]][:2] == ["stack-session", "align"] and trace["steps"][1]["effects"] is None
    text = takeset("trace", out, "--episode", "a", "--row", 4, check=66).stdout
    assert "by the name: rgb/000004.jpg" in text and "it is no longer there" in text and "not tried: the take is no longer at" in text
    # The other take is there.
    assert traced(takeset, out, "b", 4)["reproduced"] is True


def test_one_vanished_file_is_named(takeset, out):
    (out.parent / "in/a/poses.json").unlink()
    trace = traced(takeset, out, "a", 4, check=66)
    assert trace["reproduced"] is None and trace["unavailable"]
    assert {one["path"]: one["state"] for one in trace["inputs"]}["poses.json"] == "missing"


def test_a_damaged_shard_is_not_opened(takeset, out):
    path = out / "episodes/a.h5"
    data = bytearray(path.read_bytes())
    data[100:160] = bytes(60)
    path.write_bytes(data)
    trace = traced(takeset, out, "a", 0, check=2)
    assert trace["problems"] and trace["streams"] == []


def test_what_another_program_adds_does_not_matter(takeset, out):
    with h5py.File(out / "episodes/a.h5", "r+") as file:
        file["data/demo_0/obs/mine"] = np.zeros((12, 3))
    assert traced(takeset, out, "a", 4)["reproduced"] is True


# Packed and merged


def test_a_packed_file_tells_what_it_knows(takeset, takes, tmp_path):
    takeset("pack", takes, "--output", tmp_path / "packed.h5", check=0)
    trace = traced(takeset, tmp_path / "packed.h5", "b", -2)
    assert (trace["packed"], trace["demo"], trace["episode"], trace["row"], trace["inputs"]) == (True, "demo_000001", "b", 10, [])
    found = streams(trace)
    assert found["camera_image"]["as_recorded"] is True and found["camera_image"]["source_index"] == 10
    assert found["camera_image"]["sha256"] == streams(traced(takeset, takes, "b", 10))["camera_image"]["sha256"]
    assert "packed from" in trace["unavailable"]
    with h5py.File(tmp_path / "packed.h5", "r+") as file:
        file["data/another/of/another/program"] = [1]  # an episode by its place, but for what belongs to one
    assert traced(takeset, tmp_path / "packed.h5", "b", -2) == trace
    with h5py.File(tmp_path / "packed.h5", "r+") as file:
        file["data/demo_000001/obs/pose"][10, 0] += 1
    assert traced(takeset, tmp_path / "packed.h5", "demo_000001", 10, check=2)["problems"]
    (tmp_path / "packed.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 40)
    assert takeset("trace", tmp_path / "packed.h5", "--episode", "b", "--row", 0).returncode in (1, 2)


def test_a_merged_dataset_is_traced_to_the_takes(takeset, takes, tmp_path):
    other = converted(takeset, tmp_path / "other", {"c": session("v1", 12, seed=2)})
    takeset("merge", takes, other, "--output", tmp_path / "merged", check=0)
    for name in "a", "b", "c":
        trace = traced(takeset, tmp_path / "merged", name, 3)
        check_whole(tmp_path / "merged", trace)
        digests = [manifest(one)["record_sha256"] for one in (takes, other)]
        assert [source["record_sha256"] for source in trace["sources"]] == digests


# The command


def test_mistakes_are_answered_with_what_there_is(takeset, takes, tmp_path):
    def mistake(*arguments, dataset=takes, check=64):
        return takeset("trace", dataset, *arguments, check=check).stderr

    assert "there is no row 12: a has the rows 0 to 11, from the end -1 to -12" in mistake("--episode", "a", "--row", 12)
    assert "there is no row -13" in mistake("--episode", "a", "--row", "-13")
    assert "has no episode demo_000002; the last is demo_000001" in mistake("--episode", "demo_000002", "--row", 0)
    assert "did you mean camera_image?" in mistake("--episode", "a", "--row", 0, "--stream", "camera_imag")
    put(tmp_path / "in", {f"session_2026_{k}/{name}": data for k in (1, 2) for name, data in session("v1", k * 4).items()})
    put(tmp_path / "in/session_broken", {"poses.json": b"nothing"})
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    assert "session_broken is failed and has no rows: " in mistake("--episode", "session_broken", "--row", 0, dataset=tmp_path / "out")
    assert "did you mean session_2026_1?" in mistake("--episode", "session_226_1", "--row", 0, dataset=tmp_path / "out")
    assert "there is no such file or directory" in mistake("--episode", "a", "--row", 0, dataset=tmp_path / "none", check=1)
    assert "is not a Takeset dataset" in mistake("--episode", "a", "--row", 0, dataset=tmp_path)


def test_the_page_shows_the_source_beside_what_is_stored(takeset, takes, tmp_path):
    page = tmp_path / "row.html"
    takeset("trace", takes, "--episode", "a", "--row", 4, "--output", page, check=0)
    text = page.read_text()
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)|<script|url\(""", text)
    pictures = dict(re.findall(r'src="data:image/\w+;base64,([^"]+)"[^>]*alt="([^"]+)"', text))
    pictures = {name: base64.b64decode(data) for data, name in pictures.items()}
    assert pictures["camera_image, source"] == (takes.parent / "in/a/rgb/000004.jpg").read_bytes()
    trace = traced(takeset, takes, "a", 4)
    shown = np.asarray(Image.open(io.BytesIO(pictures["camera_image, stored"])).convert("RGB"))
    np.testing.assert_array_equal(shown, stored(takes, trace, "obs/camera_image"))
    depth = np.asarray(Image.open(io.BytesIO(pictures["camera_depth, stored"])).convert("RGB"))
    meters = stored(takes, trace, "obs/camera_depth")[..., 0]
    assert depth.shape[:2] == meters.shape and np.array_equal((depth == 0).all(-1), meters == 0)
    # Farther is redder.
    order = np.argsort(meters.ravel())
    assert np.all(np.diff(depth[..., 0].ravel()[order].astype(int)) >= 0)
    for one in trace["inputs"]:
        assert one["sha256"] in text
    done = takeset("trace", takes, "--episode", "a", "--row", 4, "--output", page, check=73)
    assert "--replace" in done.stderr
    takeset("trace", takes, "--episode", "a", "--row", 5, "--output", page, "--replace", check=0)
    (tmp_path / "mine.html").write_text("<p>mine")
    takeset("trace", takes, "--episode", "a", "--row", 4, "--output", tmp_path / "mine.html", "--replace", check=64)
    assert (tmp_path / "mine.html").read_text() == "<p>mine"


def test_the_page_is_opened(takeset, takes, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "temporary").mkdir()
    tool = tmp_path / "bin/xdg-open"
    os.mkfifo(tmp_path / "opened")
    tool.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n')
    tool.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "temporary")}
    done = takeset("trace", takes, "--episode", "b", "--row", 2, "--open", check=0, env=environment)
    path = done.stdout.split("\n")[-2].split()[-1]
    with open(tmp_path / "opened") as pipe:
        assert pipe.read() == path
    assert path.startswith(str(tmp_path / "temporary")) and b"takeset trace" in open(path, "rb").read(2000)
    bare = {**environment, "PATH": str(tmp_path)}
    done = takeset("trace", takes, "--episode", "b", "--row", 2, "--open", "--json", check=0, env=bare)
    assert "there is no xdg-open" in done.stderr and json.loads(done.stdout)["reproduced"] is True


def test_a_frame_that_cannot_be_decoded_is_said_to_be_so(takeset, tmp_path):
    files = session("v1", 12)
    files["rgb/000003.jpg"] = files["rgb/000003.jpg"][:400]
    out = converted(takeset, tmp_path, {"a": files})
    trace = traced(takeset, out, "a", 3)
    image = streams(trace)["camera_image"]
    assert image["valid"] is False and image["unreadable"] and image["reproduced"] is True and image["origins"][0]["file"] == "rgb/000003.jpg"


def test_a_zip_that_was_written_anew_is_a_changed_file(takeset, tmp_path):
    put(tmp_path / "in", {"a.zip": zip_of(session("v1"), "a")})
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    put(tmp_path / "in", {"a.zip": zip_of(session("v1"), "a", method=0)})
    trace = traced(takeset, tmp_path / "out", "a", 3, check=2)
    (one,) = trace["inputs"]
    # The same contents in other bytes: the row comes out the same, and the archive is not the recorded one.
    assert (one["path"], one["state"], trace["reproduced"]) == ("a.zip", "changed", True)
    assert transform(3) == json.loads(held(trace, streams(trace)["pose"]["origins"][0]))["transform"]


def test_text_of_a_source_cannot_control_the_terminal(takeset, tmp_path):
    files = session("v1")
    entries = [{"note": "\x7f\x9b31m"} | entry for entry in json.loads(files["poses.json"])]
    out = converted(takeset, tmp_path, {"a": files | {"poses.json": json.dumps(entries, ensure_ascii=False).encode()}})
    (origin,) = streams(traced(takeset, out, "a", 3))["pose"]["origins"]
    assert json.loads(origin["text"]) == entries[3]
    text = takeset("trace", out, "--episode", "a", "--row", 3, "--stream", "pose", check=0).stdout
    assert r"\u007F\u009B31m" in text and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
