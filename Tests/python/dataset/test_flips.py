"""One flipped bit anywhere in a dataset is found and named."""

import os
import random
import shutil
import signal
import subprocess

import pytest
from command import BINARY
from flips import FLIPS, chunks, ends, flipped, harm, lengths_of_texts, listed, misses, of_take, verified
from outputs import manifest
from strange_takes import children
from system import processor_seconds, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def encoded(tiny_takes, tmp_path_factory, takeset):
    """A dataset whose images are sequences of bytes, which are stored in heaps and not in chunks."""
    root = tmp_path_factory.mktemp("encoded")
    (root / "p.yaml").write_text("version: 1\ntransforms: [align]\nwriter: {hdf5: {image: jpeg-source}}\n")
    takeset.convert(tiny_takes / "v1", tiny_takes / "v2", output=root / "out", arguments=["--pipeline", root / "p.yaml"])
    takeset("verify", root / "out", check=0)
    return root / "out"


@pytest.fixture
def copy(tiny_dataset, tmp_path):
    return shutil.copytree(tiny_dataset, tmp_path / "copy")


def test_every_flipped_bit_is_found(takeset, copy, tiny_dataset):
    """In shards, index and manifest; the file is named."""
    found = misses(takeset, copy, tiny_dataset, FLIPS, seed=1)
    assert not found, listed(found)


def test_every_flipped_bit_of_encoded_images_is_found(takeset, encoded, tmp_path):
    copy = shutil.copytree(encoded, tmp_path / "copy")
    found = misses(takeset, copy, encoded, max(FLIPS // 6, 24), seed=2)
    assert not found, listed(found)


def test_a_flip_in_a_chunk_is_reported_by_dataset_and_row(takeset, copy, tiny_dataset):
    lottery = random.Random(3)
    found = []
    shards = {path: chunks(path) for path in (copy / "episodes").iterdir()}
    kinds = {name.split("[")[0].split("/")[-1].rstrip(":") for places in shards.values() for _, _, name in places}
    assert {"camera_image", "camera_depth", "camera_depth_valid", "camera_depth_confidence"} <= kinds
    for number in range(max(FLIPS // 3, 40)):
        path, places = sorted(shards.items())[number % len(shards)]
        start, count, name = lottery.choice(places)
        offset, bit = start + lottery.randrange(count), lottery.randrange(8)
        flipped(path, offset, bit)
        code, out, errors = verified(copy)
        flipped(path, offset, bit)
        if code != 2 or not any(line.startswith(name) for line in out.splitlines()):
            effect = harm(path, offset, bit, tiny_dataset / path.relative_to(copy))
            found.append((name, path.name, offset, bit, f"-{start + count - offset} of {count}", code, effect, out, errors))
    assert not found, listed(found)


@pytest.mark.parametrize("name", ["v1", "v2"])
def test_verify_ends_when_lengths_of_texts_have_changed(takeset, copy, name):
    """The HDF5 library never returns for some of them."""
    path = of_take(copy, name)
    places = lengths_of_texts(path.read_bytes())
    assert len(places) > 60
    lottery, found = random.Random(5), []
    for start in lottery.sample(places, min(len(places), max(FLIPS // 4, 40))):
        offset, bit = start + lottery.choice([0, 1, 1, 7]), lottery.randrange(8)
        flipped(path, offset, bit)
        code, out, errors = verified(copy)
        flipped(path, offset, bit)
        if code != 2:
            found.append((offset, bit, code, out, errors))
        if len(found) == 3:
            break
    assert not found, listed(found)


def test_nothing_keeps_running_when_verify_is_stopped(takeset, copy):
    """The process that reads external HDF5 ends with it, even in the middle of a file that is slow to read."""
    path = of_take(copy, "v1")
    signals = [signal.SIGTERM, signal.SIGKILL]
    for place in lengths_of_texts(path.read_bytes()):
        flipped(path, place + 1, 2)
        while signals:
            process = subprocess.Popen([BINARY, "verify", copy], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # Much longer than it reads a file that it can read.
            until(lambda: process.poll() is not None or any(processor_seconds(child) > 1 for child in children(process.pid)), "an end or a hang", 600)
            if process.poll() is not None:
                break
            readers = [os.pidfd_open(child) for child in children(process.pid)]
            process.send_signal(signals.pop())
            process.wait(timeout=300)
            left = [child for child in readers if not ends(child)]
            for child in left:
                signal.pidfd_send_signal(child, signal.SIGKILL)
            assert left == [], "it keeps running"
        else:
            return
        flipped(path, place + 1, 2)
    pytest.skip("no file was found that takes long")


# The journal


def test_a_flipped_bit_in_the_journal_never_reaches_the_record(takeset, tiny_takes, tmp_path):
    """The next run, with one take more, ends with what a run over the same tiny_takes makes from nothing."""
    three, four = sorted(tiny_takes.iterdir())[:3], sorted(tiny_takes.iterdir())
    takeset.convert(*four, output=tmp_path / "clean")
    expected = manifest(tmp_path / "clean")
    shards = {path.name: path.read_bytes() for path in (tmp_path / "clean/episodes").iterdir()}
    takeset.convert(*three, output=tmp_path / "three")
    lottery = random.Random(4)
    output, found = tmp_path / "out", []
    for number in range(max(FLIPS // 5, 20)):
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(tmp_path / "three", output)
        journal = output / "journal.jsonl"
        contents = journal.read_bytes()
        newlines = [at for at, byte in enumerate(contents) if byte == 10]
        offset = lottery.choice(newlines) if number % 10 == 0 else lottery.randrange(len(contents))
        bit = lottery.randrange(8)
        flipped(journal, offset, bit)
        done = takeset("run", *four, "--output", output)
        after = manifest(output)
        noted = "journal" in done.stdout + done.stderr or offset == newlines[-1]  # a last line without its end is one that a crash cut
        same = {path.name: path.read_bytes() for path in (output / "episodes").iterdir()} == shards
        intact = done.returncode == 0 and takeset("verify", output).returncode == 0
        if not (intact and noted and same and after["record"] == expected["record"] and after["record_sha256"] == expected["record_sha256"]):
            found.append((offset, bit, done.returncode, noted, same, after["record"] == expected["record"], done.stdout, done.stderr))
    assert not found, listed(found)
