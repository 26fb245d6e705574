"""Inputs that are missing, empty, named alike or not a take; and inputs are never modified."""

import json
import os
import shutil

import pytest
from outputs import demos, manifest, take
from session_faults import V1, V2, fails, tree
from system import as_nobody


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


def test_an_empty_directory_is_a_mistake(takeset, tmp_path):
    (tmp_path / "empty").mkdir()
    done = takeset.convert(tmp_path / "empty", output=tmp_path / "out", check=64)
    assert "the directory holds no take" in done.stderr and not (tmp_path / "out").exists()
    (entry,) = json.loads(takeset("plan", tmp_path / "empty", "--json", check=3).stdout)["takes"]
    assert entry["id"] == "empty" and "holds no take" in entry["reason"]


def test_an_empty_directory_beside_others_has_its_own_entry(takeset, sessions, tmp_path):
    (tmp_path / "empty").mkdir()
    takeset.convert(sessions, tmp_path / "empty", output=tmp_path / "out", check=3)
    record = take(tmp_path / "out", "empty")
    assert record["findings"][0]["code"] == "no-take-found" and "holds no take" in record["reason"]


def test_a_missing_input_does_not_stop_the_others(takeset, sessions, tmp_path):
    takeset.convert(sessions, tmp_path / "nowhere", output=tmp_path / "out", check=3)
    assert take(tmp_path / "out", "nowhere")["findings"][0]["code"] == "input-missing"
    assert len(demos(tmp_path / "out")) == 2


def test_folders_with_rgb_that_are_no_sessions_are_skipped(takeset, sessions, tmp_path):
    metadata = (sessions / V1 / "metadata.json").read_bytes()
    image = (sessions / V1 / "rgb/000003.jpg").read_bytes()
    others = {"holiday": {"rgb/beach.jpg": image, "rgb/3.jpg": image}, "album": {"rgb/a.png": b"", "metadata.json": b'{"album": 1}'}}
    lost = {"session_lost": {"rgb/notes.txt": b""}, "told": {"rgb/notes.txt": b"", "metadata.json": metadata}, "pictures": {"rgb/000003.jpg": image}}
    for name, files in {**others, **lost}.items():
        for path, data in files.items():
            (tmp_path / "in" / name / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "in" / name / path).write_bytes(data)
    takeset.convert(tmp_path / "in", sessions, output=tmp_path / "out", check=3)
    takes = {t["id"]: (t["reader"], t["outcome"]) for t in manifest(tmp_path / "out")["record"]["takes"]}
    # A possible session without its images is not skipped silently.
    expected = {name: ("stack-session", "failed") for name in lost} | {name: ("stack-session", "written") for name in (V1, V2)}
    assert takes == expected
    assert "holds no take" in takeset.convert(tmp_path / "in/holiday", output=tmp_path / "alone", check=64).stderr


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
    assert [f["code"] for f in take(tmp_path / "out", V1 + "-2")["findings"]] == ["duplicate-id", "day-contradictory"]
    again = takeset.convert(sessions, tmp_path / "more", output=tmp_path / "out")
    assert "nothing to do" in again.stdout
    # Asked for alone, the second keeps its name and does not take the first one's place.
    takeset.convert(tmp_path / "more", output=tmp_path / "out")
    assert sorted(demos(tmp_path / "out")) == [V1, V1 + "-2", V2]


def test_a_name_that_is_not_text_has_its_entry(takeset, sessions, tmp_path):
    shutil.copytree(sessions / V1, os.fsdecode(os.fsencode(sessions) + b"/bad\xff"))
    takeset.convert(sessions, output=tmp_path / "out", check=3)
    assert len(demos(tmp_path / "out")) == 2
    assert "bad-name" in [f["code"] for t in manifest(tmp_path / "out")["record"]["takes"] for f in t["findings"]]


def test_names_equal_in_unicode_are_two_takes(takeset, sessions, tmp_path):
    equal = tmp_path / "twins"
    for name in "caf\u00e9", "cafe\u0301":
        shutil.copytree(sessions / V1, equal / name)
    takeset.convert(equal, output=tmp_path / "out")
    assert len(demos(tmp_path / "out")) == 2


def test_inputs_are_never_modified(takeset, sessions, tmp_path):
    (sessions / V1 / "rgb/000001.jpg").write_bytes(b"")
    before = tree(sessions)
    takeset.convert(sessions, output=tmp_path / "out")
    takeset("inspect", sessions)
    assert tree(sessions) == before


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_a_file_that_may_not_be_read_is_a_failed_take(takeset, tmp_path):
    """Nobody can say that it is none."""
    takeset("simulate", "realitycam-bundle", "--layout", "multipart", "--seconds", 1, "--size", "96x72", "--output", tmp_path / "in/bundle", check=0)
    takeset.simulate(tmp_path / "in/good", "--variant", "v2", "--seconds", 1, "--size", "96x72")
    next((tmp_path / "in/bundle").glob("*multipart*")).chmod(0)
    (tmp_path / "mine").mkdir()
    os.chown(tmp_path / "mine", 65534, 65534)
    for parent in [tmp_path, *tmp_path.parents]:
        if not parent.stat().st_mode & 1:
            parent.chmod(parent.stat().st_mode | 0o011)
    takeset("run", tmp_path / "in", "--output", tmp_path / "mine/out", check=3, preexec_fn=as_nobody)
    outcomes = {entry["id"]: (entry["outcome"], *(found["code"] for found in entry["findings"] if found["severity"] == "error"))
                for entry in manifest(tmp_path / "mine/out")["record"]["takes"]}
    assert outcomes.pop("good") == ("written",) and list(outcomes.values()) == [("failed", "permission")], outcomes
