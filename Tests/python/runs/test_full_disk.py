"""Full disks: what has its final name is complete and right, or is absent."""

import os
import re
import resource
import shutil

import pytest
from outputs import demos
from session_faults import V1
from stack_sessions import v1, write
from system import mount_tmpfs


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
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))

    done = takeset("run", sessions, "--output", tmp_path / "out", preexec_fn=limit)
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr and "File too large" in done.stderr
    assert list((tmp_path / "out/episodes").glob("*")) == []  # nothing partial, not even under another name
    assert not (tmp_path / "out/manifest.json").exists()
    takeset.convert(sessions, output=tmp_path / "out")
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_keeps_what_is_sealed(takeset, sessions, tmp_path):
    unmount = mount_tmpfs(tmp_path / "disk", "14m")  # room for the first take, not for the second
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


@pytest.mark.slow
def test_a_full_disk_names_the_space_of_the_outputs_own_file_system(takeset, tmp_path):
    write(tmp_path / "session", v1().contents())
    unmount = mount_tmpfs(tmp_path / "disk", "1m")
    try:
        (tmp_path / "disk/ballast").write_bytes(bytes(700_000))
        done = takeset("run", tmp_path / "session", "--output", tmp_path / "disk/out", cwd=tmp_path)
        assert done.returncode == 1 and "No space left on device" in done.stderr, done.stderr
        reported = re.search(r"([\d.]+) ?(bytes|kB|KB|KiB|MB|MiB|GB|GiB)[^.\n]* free", done.stderr)
        assert reported, done.stderr
        scale = {"b": 1, "k": 1000, "m": 10**6, "g": 10**9}[reported[2][0].lower()]
        assert float(reported[1]) * scale <= 1.1e6, done.stderr  # the disk of the inputs has more
        assert shutil.disk_usage(tmp_path).free > 10**7
    finally:
        unmount()
