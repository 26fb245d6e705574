"""Archives: the metadata file next to an archive, and folders next to their own archive."""

import hashlib
import json

from archive_checks import JUNK, WHOLE, content, entries, placed, searched
from archives import directories, members, tar_of, zip_of, zipped
from conversions import failed_with
from outputs import codes, demos, input_digest, manifest, take
from schemas import validator
from small_sessions import session


def test_the_manifest_names_the_archive_and_its_sidecar(takeset, tmp_path):
    files = session("v2") | {"viz/a.png": b"x" * 1000}
    archive, tar = zipped(directories(files) + members(files)), tar_of(files, root="")
    found = searched(takeset, tmp_path, {"session_X.zip": archive, "session_X.metadata.json": files["metadata.json"], "session_Y.tar": tar})

    def said(data, path, role):
        return {"bytes": len(data), "path": path, "role": role, "sha256": hashlib.sha256(data).hexdigest()}

    one, other = found["session_X"], found["session_Y"]
    assert one["inputs"] == [said(files["metadata.json"], "session_X.metadata.json", "sidecar"), said(archive, "session_X.zip", "archive")]
    assert one["input_sha256"] == input_digest({"session_X.zip": archive, "session_X.metadata.json": files["metadata.json"]})
    assert other["inputs"] == [said(tar, "session_Y.tar", "archive")]
    assert other["input_sha256"] == input_digest({"session_Y.tar": tar})
    size = sum(map(len, files.values()))
    assert one["details"]["archive"] == {"bytes": size, "format": "zip", "members": 12, "root": "session_X"}
    assert other["details"]["archive"] == {"bytes": size, "format": "tar", "members": 12, "root": ""}
    document = manifest(tmp_path / "out")
    validator("manifest.schema.json").validate(document)
    assert str(tmp_path) not in json.dumps(document["record"])


def test_an_archive_named_with_its_path_has_its_sidecar_too(takeset, tmp_path):
    files = session("v2")
    placed(tmp_path / "in", {"session_X.tar": tar_of(files), "session_X.metadata.json": files["metadata.json"]})
    takeset.convert(tmp_path / "in/session_X.tar", output=tmp_path / "out")
    assert [one["role"] for one in take(tmp_path / "out", "session_X")["inputs"]] == ["sidecar", "archive"]


def test_sidecars_are_compared_with_the_metadata_inside(takeset, tmp_path):
    files = session("v3-scaled")
    inner = json.loads(files["metadata.json"])
    bare = {name: data for name, data in files.items() if name != "metadata.json"}
    reordered = json.dumps(dict(reversed(inner.items())), indent=2).replace("iPhone", "\\u0069Phone").encode()
    found = searched(takeset, tmp_path, {
        "same.zip": zip_of(files), "same.metadata.json": reordered,
        "other.zip": zip_of(files), "other.metadata.json": json.dumps(inner | {"poseCount": 99, "synthetic": True}).encode(),
        "missing.zip": zip_of(bare), "missing.metadata.json": files["metadata.json"],
        "missing-tar.tar": tar_of(bare), "missing-tar.metadata.json": files["metadata.json"],
        "neither.zip": zip_of(bare), "plain": files,
    })
    assert sorted(found) == ["missing", "missing-tar", "neither", "other", "plain", "same"]
    plain = set(codes(found["plain"], "warning"))
    assert set(codes(found["same"], "warning")) == plain
    assert set(codes(found["other"], "warning")) == plain | {"sidecar-differs"}
    assert found["other"]["variant"] == "v3-scaled" and found["other"]["details"]["declared"]["poseCount"] == 8
    assert "metadata-missing" in codes(found["neither"], "warning") and found["neither"]["variant"] == "v3-slam"
    for name in "missing", "missing-tar":
        assert set(codes(found[name], "warning")) == plain | {"metadata-from-sidecar"} and found[name]["variant"] == "v3-scaled"
    for name in "same", "other", "missing", "missing-tar":
        assert content(tmp_path / "out", name) == content(tmp_path / "out", "plain")


def test_a_sidecar_without_its_archive_is_a_reported_loss(takeset, tmp_path):
    files = session("v2")
    found = searched(takeset, tmp_path, {
        "session_lost.metadata.json": files["metadata.json"], "session_Z": files, "session_Z.metadata.json": files["metadata.json"],
    }, check=3)
    assert sorted(found) == ["session_Z", "session_lost"]
    failed_with(found["session_lost"], "archive-missing", "session_lost")
    assert found["session_Z"]["outcome"] == "written" and "sidecar" not in [one["role"] for one in found["session_Z"]["inputs"]]
    inspected = json.loads(takeset("inspect", tmp_path / "in", "--json", check=3).stdout)["takes"]
    assert {one["id"]: one["would_be"] for one in inspected} == {"session_Z": "written", "session_lost": "failed"}


def test_a_sidecar_all_alone_is_reported_too(takeset, tmp_path):
    placed(tmp_path / "in", {"session_lost.metadata.json": session("v2")["metadata.json"]})
    takeset.convert(tmp_path / "in", output=tmp_path / "out", check=3)
    failed_with(take(tmp_path / "out", "session_lost"), "archive-missing")


# A folder and its archive


def test_a_folder_and_its_archive_are_one_take(takeset, tmp_path):
    files = session("v2")
    searched(takeset, tmp_path, {
        "a": files, "a.zip": zip_of(files, "a"), "b": files | JUNK, "b.tar": tar_of(files, "anything"),
    })
    found = entries(tmp_path / "out")
    assert sorted(found) == ["a", "a-2", "b", "b-2"] and sorted(demos(tmp_path / "out")) == ["a", "b"]
    for name, archive in ("a", "a.zip"), ("b", "b.tar"):
        assert found[name]["outcome"] == "written" and "poses.json" in [one["path"] for one in found[name]["inputs"]]
        second = found[f"{name}-2"]
        assert second["outcome"] == "rejected" and second["reason"].startswith("duplicate")
        assert archive in [one["path"] for one in second["inputs"]]
    assert "nothing to do" in takeset.convert(tmp_path / "in", output=tmp_path / "out").stdout


def test_an_archive_named_alone_is_written_though_its_folder_exists(takeset, tmp_path):
    placed(tmp_path / "in", {"session_X": WHOLE, "session_X.zip": zip_of(WHOLE)})
    takeset.convert(tmp_path / "in/session_X.zip", output=tmp_path / "out")
    assert take(tmp_path / "out", "session_X")["outcome"] == "written"
