"""Full disks: what has its final name is complete and right, or is absent."""

import os
import resource
import shutil

import pytest
from system import limited


def published(directory):
    """Files under their final names; the manifest without what differs from run to run."""
    files = {}
    for path in [*(directory / "episodes").glob("*.h5"), directory / "dataset.h5", directory / "manifest.json"]:
        if path.exists():
            data = path.read_bytes()
            files[path.name] = data[: data.index(b'\n"run')] if path.suffix == ".json" else data
    return files


@pytest.mark.slow
def test_a_disk_that_is_full_at_any_one_write_never_leaves_a_wrong_file(takeset, failing_write, tmp_path):
    sessions = tmp_path / "sessions"
    for name, variant in ("a", "v1"), ("b", "v2"):
        takeset.simulate(sessions / name, "--variant", variant, "--seconds", 0.05, "--size", "32x24", "--depth-size", "8x6")
    takeset.convert(sessions, output=tmp_path / "whole", arguments=["--jobs", "1"])
    expected = published(tmp_path / "whole")
    failures = 0
    for number in range(1, 2000):
        output = tmp_path / "out"
        shutil.rmtree(output, ignore_errors=True)
        environment = {**os.environ, "LD_PRELOAD": str(failing_write), "FAIL_AT": str(number)}
        done = takeset("run", sessions, "--output", output, "--jobs", "1", env=environment)
        found = published(output)
        for name, data in found.items():
            assert data == expected[name], f"write {number} failed and left a wrong {name}"
        assert not [p for p in output.rglob("*") if p.name.endswith(".partial")]
        if done.returncode == 0:
            assert found == expected, f"write {number}"
            break  # there is no such write any more
        assert done.returncode == 1 and "No space left on device" in done.stderr, done.stderr
        failures += 1
        if number % 10 == 0:
            takeset.convert(sessions, output=output)
            assert published(output) == expected
    assert failures > 30  # small pieces are written together


def test_a_file_size_limit_stands_for_a_full_disk(takeset, sessions, tmp_path):
    done = takeset("run", sessions, "--output", tmp_path / "out", preexec_fn=limited(resource.RLIMIT_FSIZE, 4 << 20))
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr and "File too large" in done.stderr
    assert list((tmp_path / "out/episodes").glob("*")) == []  # nothing partial, not even under another name
    assert not (tmp_path / "out/manifest.json").exists()
    takeset.convert(sessions, output=tmp_path / "out")
    takeset("verify", tmp_path / "out", check=0)
