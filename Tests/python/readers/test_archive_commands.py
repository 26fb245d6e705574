"""Archives: inspect, plan, verify and repeated runs treat them as they treat folders."""

import hashlib
import json

import numpy as np
import pytest
from archive_checks import WHOLE, damaged, placed, searched
from archives import Member, members, tar_of, zip_of, zipped
from conversions import same_for_all_jobs
from outputs import codes, demos, take
from PIL import Image
from small_sessions import changed, session


def test_inspect_and_plan_report_the_same_of_an_archive_and_its_folder(takeset, tmp_path):
    found = {"folder/session_X": WHOLE, "zip/session_X.zip": zip_of(WHOLE), "tar/session_X.tar": tar_of(WHOLE)}
    placed(tmp_path, found)
    reported, plans = {}, {}
    for path in found:
        (reported[path],) = json.loads(takeset("inspect", tmp_path / path, "--json", check=0).stdout)["takes"]
        plans[path] = json.loads(takeset("plan", tmp_path / path, "--json", check=0).stdout)
        assert reported[path].pop("path") == str(tmp_path / path)
    for path, kind in ("zip/session_X.zip", "zip"), ("tar/session_X.tar", "tar"):
        assert reported[path]["details"].pop("archive")["format"] == kind
        assert reported[path] == reported["folder/session_X"] and plans[path] == plans["folder/session_X"]


def test_inspect_shows_images_of_archives(takeset, tmp_path):
    placed(tmp_path, {"session_X.zip": zip_of(session("v1")), "session_Y": session("v1")})
    for name in "session_X.zip", "session_Y":
        takeset("inspect", tmp_path / name, "--preview", tmp_path / f"{name}.png", check=0)
    sheets = [np.array(Image.open(tmp_path / f"{name}.png")) for name in ("session_X.zip", "session_Y")]
    assert (sheets[0] == sheets[1]).all()


@pytest.mark.slow
def test_verify_digests_archives_and_sidecars_again(takeset, tmp_path):
    searched(takeset, tmp_path, {
        "session_X.zip": zip_of(WHOLE), "session_X.metadata.json": WHOLE["metadata.json"], "session_Y.tar": tar_of(WHOLE),
    })
    takeset("verify", tmp_path / "out", "--inputs", check=0)
    for name, take_id in ("session_X.zip", "session_X"), ("session_X.metadata.json", "session_X"), ("session_Y.tar", "session_Y"):
        path = tmp_path / "in" / name
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        done = takeset("verify", tmp_path / "out", "--inputs", check=2)
        assert f"{take_id}: {name}" in done.stdout + done.stderr
        takeset("verify", tmp_path / "out", check=0)
        path.unlink()
        assert takeset("verify", tmp_path / "out", "--inputs").returncode == 2
        path.write_bytes(data)
    takeset("verify", tmp_path / "out", "--inputs", check=0)


def test_a_changed_archive_is_rebuilt_and_only_that(takeset, tmp_path):
    searched(takeset, tmp_path, {"session_X.zip": zip_of(WHOLE), "session_Y.tar": tar_of(WHOLE)})
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert "nothing to do (2 unchanged" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout
    assert before == {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    (tmp_path / "in/session_X.zip").touch()
    assert "nothing to do" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout
    other = zip_of(session("v2", seed=5))
    (tmp_path / "in/session_X.zip").write_bytes(other)
    assert "1 written, 1 unchanged" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout
    assert take(tmp_path / "out", "session_X")["inputs"][0]["sha256"] == hashlib.sha256(other).hexdigest()
    assert demos(tmp_path / "out")["session_X"][0]["obs/pose"][0, 2] == pytest.approx(4.7, abs=1e-6)
    placed(tmp_path / "in", {"session_Y.metadata.json": changed(WHOLE, "metadata.json", iosVersion="1")["metadata.json"]})
    assert "1 written, 1 unchanged" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout
    assert "sidecar-differs" in codes(take(tmp_path / "out", "session_Y"))


def test_archives_give_the_same_bytes_whatever_the_jobs(takeset, tmp_path):
    v1 = session("v1", count=12)
    placed(tmp_path / "in", {
        "a.zip": zip_of(v1), "b.tar": tar_of(session("v3-slam")), "c.zip": damaged(v1, "rgb/000003.jpg", "depth/000001.bin"),
        "d.zip": b"PK\3\4", "e.zip": zip_of(WHOLE), "e": WHOLE, "f.zip": zipped(members(WHOLE) + [Member("../evil")]),
        "g.zip": damaged(v1, "poses.json"),
    })
    assert same_for_all_jobs(takeset, tmp_path / "in", check=3, jobs=(1, 2)) == 4
