"""Takes that have lost a file or have one too many: the remaining data keeps its correspondence."""

import json
import shutil
import zipfile

import numpy as np
import pytest
from images import numbers
from outputs import demos, manifest, take
from phone_takes import zipped


@pytest.fixture(scope="module")
def originals(takeset, tmp_path_factory):
    root = tmp_path_factory.mktemp("originals")
    takeset.simulate(root / "slam", "--variant", "v3-slam", "--seconds", 1, "--size", "96x72")
    takeset.simulate(root / "glove", "--variant", "v2", "--seconds", 1, "--size", "96x72")
    takeset("simulate", "stray-scanner", "--output", root / "scan", "--seconds", 1, "--size", "96x72", "--depth-size", "32x24", "--quirk", "si-acceleration", check=0)
    return root


@pytest.fixture
def copy(originals, tmp_path):
    def copied(name, to=None):
        return shutil.copytree(originals / name, tmp_path / "in" / (to or name))

    return copied


def codes(entry):
    return {finding["code"]: finding.get("count") for finding in entry["findings"]}


# SLAM


def test_images_lost_after_slam_leave_holes_and_shift_nothing(takeset, copy, tmp_path):
    session = copy("slam")
    for number in 20, 21, 33:
        (session / f"rgb/{number:06d}.jpg").unlink()
    takeset.convert(session, output=tmp_path / "out")
    entry, (demo, meta) = take(tmp_path / "out", "slam"), demos(tmp_path / "out")["slam"]
    kept = [n for n in range(60) if n not in (20, 21, 33)]
    assert meta["source_index"][:].tolist() == kept == numbers(demo["obs/camera_image"][:])
    assert (np.diff(meta["timestamp_ns"][:]) > 0).all() and codes(entry)["image-missing"] == 3 and "slam-ordinals" not in codes(entry)
    matrices = [e["transform"] for e in json.loads((session / "poses.json").read_text())]
    assert np.allclose(demo["obs/pose"][:, :3], [[matrices[n][row][3] for row in range(3)] for n in kept], atol=1e-6)
    totals = manifest(tmp_path / "out")["record"]["totals"]
    assert min(value for value in totals.values() if isinstance(value, int)) >= 0
    # The video contains the lost images, so it still gives the times of the others.
    assert "times-from-movie" in codes(entry)


# Archives and the folders next to them


def test_an_archive_outlives_the_folder_that_it_was_a_copy_of(takeset, copy, tmp_path):
    session = copy("glove", "session_b")
    zipped(session, session.with_suffix(".zip"), f"{session.name}/")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    assert take(tmp_path / "out", "session_b-2")["reason"].startswith("duplicate")
    shutil.rmtree(session)
    takeset.convert(tmp_path / "in", output=tmp_path / "out", arguments=["--prune"])
    written = [t for t in manifest(tmp_path / "out")["record"]["takes"] if t["outcome"] == "written"]
    assert len(written) == 1 and written[0]["inputs"][0]["role"] == "archive"


def test_a_folder_that_comes_later_makes_its_archive_a_copy(takeset, copy, tmp_path):
    session = copy("glove", "session_h")
    zipped(session, session.with_suffix(".zip"), f"{session.name}/")
    aside = session.rename(tmp_path / "aside")
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    aside.rename(session)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    outcomes = sorted((t["outcome"], (t["reason"] or "").split(":")[0]) for t in manifest(tmp_path / "out")["record"]["takes"])
    assert outcomes == [("rejected", "duplicate"), ("written", "")]


def test_a_damaged_archive_is_no_copy_of_its_folder(takeset, copy, tmp_path):
    session = copy("glove", "session_e")
    path = zipped(session, session.with_suffix(".zip"), f"{session.name}/")
    data = bytearray(path.read_bytes())
    image = (session / "rgb/000030.jpg").read_bytes()
    data[data.find(image) + 700] ^= 0x10
    path.write_bytes(data)
    takeset.convert(tmp_path / "in", output=tmp_path / "out")
    assert codes(take(tmp_path / "out", "session_e-2")) == {"duplicate-id": None, "image-undecodable": 1}


@pytest.mark.slow
def test_a_damaged_video_in_a_zip_fails_the_take(takeset, copy, tmp_path):
    """Most of its bytes decode to other images without a complaint; the archive's checksum detects it."""
    scan = copy("scan")
    video = (scan / "rgb.mp4").read_bytes()
    path = zipped(scan, tmp_path / "scan.zip", "scan/")
    for part in 0.3, 0.5, 0.7:
        data = bytearray(path.read_bytes())
        data[data.find(video[:200]) + int(len(video) * part)] ^= 0x01
        (tmp_path / "damaged.zip").write_bytes(data)
        takeset("inspect", tmp_path / "damaged.zip", check=3)
        takeset.convert(tmp_path / "damaged.zip", output=tmp_path / f"out{part}", check=3)
        (entry,) = manifest(tmp_path / f"out{part}")["record"]["takes"]
        assert entry["outcome"] == "failed" and {"archive-damaged", "movie-corrupt"} & set(codes(entry))


def test_an_archive_without_the_session_its_sidecar_describes_fails(takeset, copy, tmp_path):
    session = copy("glove", "session_c")
    shutil.copy(session / "metadata.json", tmp_path / "in/session_c.metadata.json")
    shutil.rmtree(session)
    zipfile.ZipFile(tmp_path / "in/session_c.zip", "w").close()
    copy("slam")
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    assert take(tmp_path / "out", "session_c")["outcome"] == "failed" and take(tmp_path / "out", "slam")["outcome"] == "written"


# Stray Scanner


def test_images_extracted_into_rgb_make_no_session_of_a_scan(takeset, copy, tmp_path):
    scan = copy("scan")
    (scan / "rgb").mkdir()
    (scan / "rgb/000000.jpg").write_bytes(b"a picture")
    takeset.convert(scan, output=tmp_path / "out")
    entry = take(tmp_path / "out", "scan")
    assert entry["reader"] == "stray-scanner" and "rgb/" in entry["details"]["ignored"]


# Gloves


def glove_table(session, rows, header="local_time,"):
    (session / "encoders.json").unlink()
    names = f"{header}esp_timestamp_ms,index_mcp,index_pip,three_finger_mcp,three_finger_pip"
    (session / "encoders_1.csv").write_text("\n".join([names, *rows]))


def test_an_offset_beyond_all_clocks_is_refused_and_a_large_one_is_harmless(takeset, copy, tmp_path):
    session = copy("glove")
    glove_table(session, [f"{20 * k},{k},2,3,4" for k in range(60)], header="")
    pipeline = tmp_path / "pipeline.yaml"
    for offset, code in (-9.9e9, 64), (-4e9, 0), (4e9, 0):
        pipeline.write_text(f"version: 1\nreader: {{name: stack-session, csv-clock-offset: {offset:.1f}}}\ntransforms: [align]\n")
        output = tmp_path / f"out{offset}"
        done = takeset.convert(session, output=output, check=code, arguments=["--pipeline", pipeline])
        if code == 64:
            assert "reader.csv-clock-offset" in done.stderr and not output.exists()
            continue
        entry, (demo, meta) = take(output, "glove"), demos(output)["glove"]
        assert entry["outcome"] == "written" and numbers(demo["obs/camera_image"][:]) == list(range(60))
        # Readings so far away belong to no frame.
        assert "clock-unaligned" in codes(entry) and ("joints-late" in codes(entry)) is (offset > 0)
        assert np.isnan(demo["obs/joints"][:]).all() and not demo["obs/joints_valid"][:].any() and not meta["streams/joints/valid"][:].any()


def test_a_hand_that_closes_is_not_recalibrated(takeset, copy, tmp_path):
    session = copy("glove")
    readings = json.loads((session / "encoders.json").read_text())[::6]
    for k, reading in enumerate(readings):
        for channel in "index_mcp", "index_pip", "three_finger_mcp", "three_finger_pip":
            reading[channel] = 20 + 11 * k
    (session / "encoders.json").write_text(json.dumps(readings))
    takeset.convert(session, output=tmp_path / "out")
    assert "joints-recalibrated" not in codes(take(tmp_path / "out", "glove"))
