"""The same clients while the disk is full, while it is slow, and while the server is ended as an operator ends it."""

import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from load import OPTIONS, Load
from resumable import Tus, metadata, patch_head, raw, sha256, stored


@pytest.fixture
def slow_disk(tmp_path):
    """A library that makes the disk of the program slow that it is preloaded into."""
    library = tmp_path / "slow_disk.so"
    compiler = shutil.which("cc") or pytest.skip("needs a C compiler")
    source = Path(__file__).with_name("slow_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


@pytest.mark.parametrize("small_disk", ["1g"], indirect=True)
@pytest.mark.parametrize("left", [0, 300_000], ids=["nothing", "a-little"])
def test_a_full_disk_loses_nothing_and_the_server_goes_on(start, small_disk, left):
    """The clients alone do not fill it: they store 30 MB a second."""
    server = start(*OPTIONS, data=small_disk / "data")
    with Load(server, seed=17 + left, is_patient=True) as load:
        load.until(captures=15)
        filler = small_disk / "filler"
        for _ in range(3):
            # Without a buffer, of which the rest would fail again when the file is closed.
            with filler.open("wb", buffering=0) as file:
                # The clients write at the same time; in the end only so much is free.
                while (free := shutil.disk_usage(small_disk).free) > left:
                    try:
                        file.write(bytes(min(free - left, 8 << 20)))
                    except OSError:
                        break
            refused = load.counts["507"]
            server.until(lambda: load.counts["507"] >= refused + 20)
            assert server.get("/health").ok
            filler.unlink()
            load.until(captures=15)
    server.restart()
    load.check()
    print("\n" + load.summary())
    # Only what says so: 507, or no answer for the slow-motion app, which would take any for a success.
    assert set(load.counts) & {"500", "503"} == set() and load.counts["cuts"] > 0


def test_a_slow_disk_only_takes_longer(start, slow_disk, tmp_path):
    """It stops for a while: requests that need no disk are answered meanwhile."""
    gate = tmp_path / "gate"
    waiting = tmp_path / "gate.waiting"
    server = start(*OPTIONS, environment={"LD_PRELOAD": str(slow_disk), "DISK_GATE": str(gate)})
    with Load(server, seed=18) as load:
        for count in (8, 5):
            load.until(captures=count)
            gate.touch()
            server.until(lambda: waiting.exists() and waiting.stat().st_size >= 2)
            for _ in range(20):
                assert server.get("/health").ok
            gate.unlink()
            waiting.unlink()
            server.restart()
        load.until(captures=8)
    server.restart()
    load.check()
    print("\n" + load.summary())


def test_a_server_that_is_ended_answers_what_is_under_way(start):
    server = start(*OPTIONS)
    with Load(server, seed=19) as load:
        for number in range(5):
            load.until(captures=2 + number)
            begun = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - begun < 29  # whoever waited for a request that hangs would wait for half a minute
            server.start()
        load.until(captures=10)
    server.restart()
    load.check()
    print("\n" + load.summary())


@pytest.mark.slow
def test_an_upload_that_outlasts_the_end_of_the_server_keeps_what_arrived(server):
    """Half a minute is given to requests under way; then what has arrived counts, as after any cut."""
    body = random.Random(20).randbytes(900_000)
    tus = Tus(server)
    path = tus.create(len(body), Upload_Metadata=metadata(sha256=sha256(body)))
    connection = raw(server, patch_head(path, 0, len(body)), body[:500_000])
    server.until((server.data / path.replace("/files/", "uploads/")).exists)
    assert server.stop() == 0
    connection.close()
    server.start()
    assert tus.offset(path) == 500_000
    last = tus.patch(path, 500_000, body[500_000:])
    assert stored(server, last.headers["X-Capture-Id"]) == {"upload.bin": body}
