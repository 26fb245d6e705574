"""The Python package: `takeset.convert` and how it finds the command."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from command import BINARY, ROOT
from outputs import manifest
from package_datasets import FAILED, STACK

import takeset as package
from takeset import TakesetError, _convert

KEPT = {"version": 1, "transforms": [{"align": {}}], "writer": {"hdf5": {"image": "png"}}}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("TAKESET", str(BINARY))


def refusal(*arguments, **options):
    with pytest.raises(TakesetError) as refused:
        package.convert(*arguments, **options)
    return refused.value


def test_takes_are_converted_as_the_command_does_it(masters, dataset, tmp_path):
    for inputs in list(masters.values()), tuple(str(master) for master in masters.values()):
        with package.convert(inputs, tmp_path / "out") as ds:
            assert ds.record == manifest(dataset)["record"] and ds.path == f"{tmp_path}/out/dataset.h5" and len(ds) == 2
    with package.convert(masters["v1"], tmp_path / "one", jobs=1) as ds:
        assert [episode.id for episode in ds] == [masters["v1"].name]
        assert json.loads((tmp_path / "one/manifest.json").read_text())["run"]["jobs"] == 1


def test_a_pipeline_is_a_dictionary_or_a_file(masters, tmp_path):
    (tmp_path / "pipeline.yaml").write_text("version: 1\ntransforms: [align: {}]\nwriter: {hdf5: {image: png}}\n")
    with package.convert(masters["v1"], tmp_path / "a", pipeline=KEPT) as a:
        with package.convert(masters["v1"], tmp_path / "b", pipeline=tmp_path / "pipeline.yaml") as b:
            assert a.record == b.record and a[0]["camera_image"].encoding == "png"


def test_another_pipeline_needs_replace(masters, tmp_path):
    package.convert(masters["v1"], tmp_path / "out").close()
    error = refusal(masters["v1"], tmp_path / "out", pipeline=KEPT)
    assert error.exit_code == 64 and "holds the output of another pipeline" in str(error)
    assert "give another output, or replace=True" in str(error) and "--" not in str(error)
    with package.convert(masters["v1"], tmp_path / "out", pipeline=KEPT, replace=True) as ds:
        assert ds[0]["camera_image"].encoding == "png"


def test_a_failed_take_is_in_the_dataset_and_with_strict_an_error(source, tmp_path):
    with package.convert(source, tmp_path / "out") as ds:
        assert len(ds) == 4 and STACK in ds
        (failed,) = [take for take in ds.takes if take["outcome"] == "failed"]
        assert failed["id"] == FAILED and "no poses.json" in failed["reason"]
    error = refusal(source, tmp_path / "out", strict=True)
    assert error.exit_code == 3 and str(error).startswith(f"1 of 5 takes failed:\n{FAILED}: poses.json: the session has 60 images and no")


def test_mistakes_are_told_in_the_commands_words(masters, tmp_path):
    error = refusal(tmp_path / "nowhere", tmp_path / "out")
    assert (error.exit_code, str(error)) == (1, f"{tmp_path}/nowhere: there is no such file or directory")
    error = refusal(masters["v1"], tmp_path / "out", pipeline={"version": 1, "transforms": [{"alin": {}}]})
    assert error.exit_code == 64 and str(error).startswith('pipeline: transforms[0].alin: unknown step "alin"; expected one of')
    assert str(error).endswith('did you mean "align"?') and not (tmp_path / "out").exists()
    error = refusal([], tmp_path / "out")
    assert (error.exit_code, str(error)) == (64, "there is nothing to convert: inputs is empty")


def test_paths_that_look_like_options_are_paths(masters, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(masters["v1"], tmp_path / "-take")
    (tmp_path / "-p.yaml").write_text("version: 1\ntransforms: [align: {}]\n")
    with package.convert("-take", "-out", pipeline="-p.yaml") as ds:
        assert ds[0].id == "-take" and (tmp_path / "-out/dataset.h5").exists()


def test_nothing_is_printed(masters, tmp_path):
    code = f"import takeset; takeset.convert({str(masters['v1'])!r}, {str(tmp_path / 'out')!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "python", capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""


# Where the command is


def script(folder, said):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "takeset"
    path.write_text(f"#!/bin/sh\necho {said} >&2\nexit 70\n")
    path.chmod(0o755)
    return path


def test_the_command_is_the_argument_then_the_variable_then_the_installed_one_then_the_one_on_the_path(tmp_path, monkeypatch):
    folders = [tmp_path / name for name in ("argument", "variable", "environment", "user", "target", "path")]
    scripts = [script(folder, folder.name) for folder in folders]
    schemes = {None: folders[2], "user": folders[3]}
    monkeypatch.setattr(_convert.sysconfig, "get_preferred_scheme", lambda key: key)
    monkeypatch.setattr(_convert.sysconfig, "get_path", lambda name, scheme=None: str(schemes[scheme]))
    monkeypatch.setattr(_convert, "__file__", str(tmp_path / "lib/takeset/_convert.py"))
    (tmp_path / "lib").mkdir()
    folders[4].rename(tmp_path / "lib/bin")
    monkeypatch.setenv("TAKESET", str(scripts[1]))
    monkeypatch.setenv("PATH", str(folders[5]), prepend=os.pathsep)
    assert refusal(tmp_path, tmp_path / "out", binary=scripts[0]).args[0] == "argument"
    for said, forget in [
        ("variable", lambda: monkeypatch.delenv("TAKESET")), ("environment", scripts[2].unlink), ("user", scripts[3].unlink),
        ("target", (tmp_path / "lib/bin/takeset").unlink), ("path", scripts[5].unlink),
    ]:  # fmt: skip
        error = refusal(tmp_path, tmp_path / "out")
        assert (str(error), error.exit_code) == (said, 70)
        forget()
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refusal(tmp_path, tmp_path / "out")
    assert str(error) == "the command takeset is not installed: put it on PATH, or set $TAKESET to its path" and error.exit_code is None


def test_a_command_that_cannot_be_run_is_named(tmp_path, monkeypatch):
    assert str(refusal(tmp_path, tmp_path / "out", binary="/nowhere/a")) == "/nowhere/a (binary) is not a command that can be run"
    monkeypatch.setenv("TAKESET", str(tmp_path))
    assert str(refusal(tmp_path, tmp_path / "out")) == f"{tmp_path} ($TAKESET) is not a command that can be run"
    broken = tmp_path / "takeset"
    broken.write_bytes(b"\x7fELF of another machine")
    broken.chmod(0o755)
    assert str(refusal(tmp_path, tmp_path / "out", binary=broken)).startswith(f"{broken} cannot be run: Exec format error")


def test_a_command_that_says_nothing_has_an_exit_code(tmp_path):
    silent = tmp_path / "takeset"
    silent.write_text("#!/bin/sh\nexit 9\n")
    silent.chmod(0o755)
    assert str(refusal(tmp_path, tmp_path / "out", binary=silent)) == "takeset run ended with exit code 9 and said nothing"
