"""Keys of assertions: which phone signed, and files of keys."""

import json

import pytest
from bundles import APP, SMALL, Device, base64_text, bundle, keys_file
from chain_checks import final, verified
from conversions import pipeline
from outputs import codes, manifest, record, traces
from videos import video_file


def test_several_apps_may_be_trusted(takeset, tmp_path):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found), app="FB2HXC7FGF.app.rial.ios")
    path = keys_file(tmp_path / "keys.json", {"phone": Device(1)}, apps=[APP, "FB2HXC7FGF.app.rial.ios"])
    assert verified(takeset, tmp_path, found, "--keys", path)["verification"]["assertion"]["state"] == "verified"


BAD_KEYS = {  # VerifyHashChainTests have more of them
    "not there": None,
    "empty": b"",
    "a point that is not on the curve": json.dumps({"app_ids": [APP], "devices": {"phone": base64_text(b"\x04" + bytes(64))}}).encode(),
}


@pytest.mark.parametrize("name", BAD_KEYS)
def test_a_bad_file_of_keys_is_a_mistake_of_the_command(takeset, tmp_path, name):
    if BAD_KEYS[name] is not None:
        (tmp_path / "keys.json").write_bytes(BAD_KEYS[name])
    directory = bundle(count=3, **SMALL).write(tmp_path / "take")
    done = takeset("run", directory, "--output", tmp_path / "out", "--keys", tmp_path / "keys.json")
    assert done.returncode == 64 and "keys.json" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_other_keys_verify_again_and_the_same_keys_do_nothing(takeset, tmp_path):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    directory, output = found.write(tmp_path / "take"), tmp_path / "out"
    steps = pipeline(tmp_path, verify_hash_chain={"require": "assertion"})
    seen = []
    for devices in {}, {"phone": Device(1)}, {"phone": Device(2)}, {"phone": Device(1)}:
        arguments = [*steps, "--keys", keys_file(tmp_path / "keys.json", devices)]
        takeset.convert(directory, output=output, arguments=arguments)
        entry = record(output)
        seen.append((entry["verification"]["assertion"]["state"], entry["outcome"]))
        assert "nothing to do" in takeset.convert(directory, output=output, arguments=arguments).stdout
        assert record(output) == entry
        takeset("verify", output, check=0)
    assert seen == [("no-key", "rejected"), ("verified", "written"), ("invalid", "rejected"), ("verified", "written")]


def test_other_keys_do_not_affect_other_takes(takeset, tmp_path):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    (tmp_path / "pour.mov").write_bytes(video_file(count=6))
    inputs, output = [found.write(tmp_path / "take"), tmp_path / "pour.mov"], tmp_path / "out"
    takeset.convert(*inputs, output=output)
    before = (output / "episodes/pour.h5").stat()
    takeset.convert(*inputs, output=output, arguments=["--keys", keys_file(tmp_path / "keys.json", {"phone": Device(1)})])
    after = (output / "episodes/pour.h5").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert [t["verification"]["levels"][-1] for t in manifest(output)["record"]["takes"] if t["id"] == "take"] == ["assertion-ok"]


def test_the_report_of_a_bundle_does_not_depend_on_when_it_was_verified(takeset, tmp_path, keys):
    found = bundle(**SMALL)
    found.metadata["assertion"] = Device(1).assertion(final(found))
    directory = found.write(tmp_path / "take")
    takeset.convert(directory, output=tmp_path / "late")
    takeset.convert(directory, output=tmp_path / "late", arguments=keys)
    takeset.convert(directory, output=tmp_path / "at-once", arguments=keys)
    assert manifest(tmp_path / "late")["record"] == manifest(tmp_path / "at-once")["record"]


@pytest.mark.parametrize("with_keys", [True, False])
def test_what_metadata_call_phone_and_codec_does_not_reach_the_output(takeset, tmp_path, keys, with_keys):
    found = bundle(**SMALL, device_id="Ada Example's iPhone", codec="of Ada Example, 48.1374")
    found.metadata["assertion"] = Device(1).assertion(final(found))
    entry = verified(takeset, tmp_path, found, *(keys if with_keys else ()))
    assert {"codec-mismatch", "metadata-range"} <= set(codes(entry)) and entry["verification"]["assertion"]["state"] == "no-key"
    assert traces(tmp_path / "out", "Ada Example", "ada example", "48.13") == []


def test_keys_do_not_reach_the_output(takeset, tmp_path, keys):
    verified(takeset, tmp_path, bundle(**SMALL), *keys)
    text = (tmp_path / "out/manifest.json").read_text()
    assert base64_text(Device(1).point) not in text
