"""Many tiny takes in one dataset: memory, system calls and files in proportion to their number; damage of a large manifest."""

import json
import os
import re
import shutil
import subprocess
import sys

import h5py
import pytest
from command import BINARY, ROOT, measured

sys.path.insert(0, str(ROOT / "Benchmarks"))
from scale import make_takes  # noqa: E402

FEW, MANY = 300, 1200
# Bytes of memory that one take more may cost, next to a base that does not depend on the number of takes.
PER_TAKE = 3000
# What one command may take with 100,000 takes on a slow disk.
HOUR = 3600
# What two runs of one command may differ by for other reasons, such as when a thread released a buffer.
NOISE = 3 << 20


class Batch:
    """Takes and the dataset made of them, in a directory of their own."""

    def __init__(self, work, count):
        self.count, self.work = count, work
        self.takes, self.dataset = make_takes(work, count), work / f"dataset-{count}"
        code, self.first_peak, _ = measured(*self.run, timeout=HOUR)
        assert code == 0
        self.key, self.public = work / "key.pem", work / "public.pem"
        if not self.key.exists():
            subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", self.key], check=True, capture_output=True)
            subprocess.run(["openssl", "pkey", "-in", self.key, "-pubout", "-out", self.public], check=True)

    @property
    def run(self):
        return BINARY, "run", self.takes, "--output", self.dataset, "--jobs", 2, "--progress", "none"

    def commands(self):
        """Commands that read or write a whole dataset, by name."""
        tasks, half = self.work / f"tasks-{self.count}", self.work / f"half-{self.count}"
        shutil.rmtree(tasks, ignore_errors=True)
        shutil.rmtree(half, ignore_errors=True)
        last = f"demo_{self.count - 1:06d}"
        yield "run again", self.run
        yield "plan --tasks", (BINARY, "plan", self.takes, "--tasks", "--output", tasks)
        yield "status", (BINARY, "status", tasks)
        yield "verify --quick", (BINARY, "verify", self.dataset, "--quick", "--quiet")
        yield "inspect", (BINARY, "inspect", self.dataset)
        yield "trace", (BINARY, "trace", self.dataset, "--episode", last, "--row", 0)
        yield "describe", (BINARY, "describe", self.dataset, "--output", self.work / f"described-{self.count}", "--jobs", 2)
        yield "sign", (BINARY, "sign", self.dataset, "--key", self.key, "--replace", "--jobs", 2)
        yield "verify --public-key", (BINARY, "verify", self.dataset, "--public-key", self.public, "--quiet", "--jobs", 2)
        yield "select --link", (BINARY, "select", self.dataset, "--where", 'id ~ "session_2026-0[1-6]*"', "--link", "--output", half, "--quiet")


@pytest.fixture(scope="module")
def batches(tmp_path_factory):
    work = tmp_path_factory.mktemp("scale")
    return Batch(work, FEW), Batch(work, MANY)


@pytest.mark.slow
def test_memory_grows_by_little_for_each_take(batches):
    few, many = batches
    more = many.count - few.count
    assert many.first_peak - few.first_peak < more * PER_TAKE + NOISE
    for (name, first), (_, second) in zip(few.commands(), many.commands()):
        (code, small, _), (other, large, _) = measured(*first), measured(*second)
        assert code == other == 0, name
        assert large - small < more * PER_TAKE + NOISE, f"{name}: {(large - small) / more:.0f} bytes a take"


def calls(*command):
    """Number of system calls of a command by name."""
    done = subprocess.run(["strace", "-f", "-c", "-U", "name,calls", *map(str, command)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return {name: int(count) for name, count in re.findall(r"^\s*(\w+)\s+(\d+)\s*$", done.stderr, re.MULTILINE) if name != "total"}


# Waiting for other threads, which depends on the moment.
UNSTEADY = {"futex", "sched_yield", "clock_nanosleep", "restart_syscall"}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("name, most", [("run again", 45), ("verify --quick", 8)])
def test_a_take_that_is_done_costs_a_fixed_number_of_system_calls(batches, name, most):
    counts = []
    for batch in batches:
        command = dict(batch.commands())[name]
        # Links to shards were made or removed meanwhile; the first run compares those shards with their digests.
        measured(*batch.run)
        found = calls(*command)
        counts.append(sum(count for call, count in found.items() if call not in UNSTEADY))
    for_each = (counts[1] - counts[0]) / (MANY - FEW)
    assert for_each < most
    # As many for the first takes as for the last: nothing is looked at once for every other take.
    assert counts[0] / FEW > 0.8 * for_each


@pytest.mark.slow
def test_quick_verification_names_what_is_missing_or_has_another_size(batches, takeset):
    dataset = batches[0].dataset
    shards = sorted((dataset / "episodes").iterdir())
    assert "sound" in takeset("verify", dataset, "--quick", check=0).stdout
    original = shards[3].read_bytes()
    try:
        shards[3].write_bytes(original + b"x")
        shards[4].rename(dataset / "aside.h5")
        os.utime(shards[5])
        done = takeset("verify", dataset, "--quick", "--json", check=2)
        differences = {one["path"]: one["message"] for one in json.loads(done.stdout)["differences"]}
        assert set(differences) == {f"episodes/{shards[3].name}", f"episodes/{shards[4].name}"}
        assert differences[f"episodes/{shards[4].name}"] == "is missing"
    finally:
        shards[3].write_bytes(original)
        (dataset / "aside.h5").rename(shards[4])
    done = takeset("verify", dataset, "--quick", "--inputs", check=64)
    assert "--quick" in done.stderr


@pytest.mark.slow
def test_a_damaged_manifest_gives_a_sentence_wherever_it_is_cut(batches, takeset, tmp_path):
    source = batches[0].dataset
    content = (source / "manifest.json").read_bytes()
    directory = tmp_path / "cut"
    directory.mkdir()
    for name in ("journal.jsonl", "dataset.h5"):
        os.link(source / name, directory / name)
    (directory / "episodes").symlink_to(source / "episodes")
    lines = [match.start() for match in re.finditer(rb"\n", content)]
    for cut in [0, 1, 20, lines[5], lines[40] + 1, lines[40] - 1, 262_144, len(content) // 2, lines[-3], len(content) - 2]:
        (directory / "manifest.json").write_bytes(content[:cut])
        done = takeset("verify", directory, "--quick", check=2)
        assert re.search(r"manifest.json: is not JSON: line \d+, column \d+: the file ends", done.stdout), (cut, done.stdout)
        for command in ("trace", directory, "--episode", "demo_000000", "--row", 0), ("inspect", directory), ("describe", directory):
            done = takeset(*command, check=64)
            assert "manifest.json cannot be read (line" in done.stderr and len(done.stderr.splitlines()) <= 2, (cut, done.stderr)


@pytest.mark.slow
def test_the_manifest_is_read_by_lines_and_the_index_by_h5py(batches):
    """The recipe of docs/scale.md gives what a JSON parser gives, and the index has the episodes in their order."""
    dataset = batches[1].dataset
    record = json.loads((dataset / "manifest.json").read_text())["record"]
    by_lines = []
    with open(dataset / "manifest.json", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith('"takes":['):
                break
        for line in lines:
            if line.startswith("]"):
                break
            by_lines.append(json.loads(line.rstrip(",\n")))
    assert by_lines == record["takes"] and len(by_lines) == MANY
    with h5py.File(dataset / "dataset.h5") as index:
        names = [f"demo_{number:06d}" for number in range(MANY)]
        assert list(index["data"]) == list(index["meta"]) == names
        for number in (0, 1, MANY // 2, MANY - 1):
            assert index["data"][names[number]].attrs["take_id"] == by_lines[number]["id"]


@pytest.mark.slow
def test_the_package_reads_a_large_manifest_as_a_small_one(batches, monkeypatch):
    import takeset as package
    from takeset._manifest import Manifest

    path = str(batches[0].dataset)
    whole = package.open(path)
    assert whole.record_sha256
    monkeypatch.setattr(Manifest, "IN_MEMORY", 0)
    by_lines = package.open(path)
    assert by_lines._store.manifest.head["takes"] == [] and len(whole._store.manifest.head["takes"]) == FEW
    assert by_lines.record == whole.record and by_lines.record_sha256 == whole.record_sha256
    name = whole[FEW - 1].id
    assert by_lines[name].index == whole[name].index == FEW - 1
    assert by_lines[name].findings == whole[name].findings and by_lines[name].findings
    assert by_lines[name].take == whole[name].take and by_lines[name].split == whole[name].split
    assert by_lines.takes == whole.takes


@pytest.mark.torture
def test_a_hundred_thousand_takes(tmp_path_factory):
    """Converted, run again, planned, checked, traced, described, signed and opened; needs 8 GB of disk and an hour."""
    work = tmp_path_factory.mktemp("hundred-thousand")
    few, many = Batch(work, 2000), Batch(work, 100_000)
    more = many.count - few.count
    assert many.first_peak - few.first_peak < more * PER_TAKE
    for (name, first), (_, second) in zip(few.commands(), many.commands()):
        (code, small, seconds), (other, large, more_seconds) = measured(*first), measured(*second, timeout=HOUR)
        assert code == other == 0, name
        assert large - small < more * PER_TAKE, f"{name}: {(large - small) / more:.0f} bytes a take"
        # In proportion, by processor time: what takes longer for every take the more there are would be far above.
        assert more_seconds < 2 * (seconds + 0.05) * many.count / few.count, f"{name}: {seconds} s and {more_seconds} s"
    text = "import h5py, sys; f = h5py.File(sys.argv[1]); f['data/demo_099999/obs/pose'][:]; assert len(f['data']) == 100_000"
    code, _, seconds = measured(sys.executable, "-c", text, many.dataset / "dataset.h5")
    assert code == 0 and seconds < 1 + measured(sys.executable, "-c", "import h5py")[2]
    shutil.rmtree(work)
