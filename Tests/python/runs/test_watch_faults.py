"""What happens to a watch: kills, a full disk, thousands of changes. Nothing is lost, doubled or half-written, and memory stays flat."""

import os
import random
import shutil
import signal
import time

import pytest
from run_outputs import outputs
from strange_takes import is_stopped
from system import mount_tmpfs, stopping
from watching import Watch, arrive, files_of, published, small_takes


@pytest.fixture(scope="module")
def sources(takeset, tmp_path_factory):
    return small_takes(takeset, tmp_path_factory.mktemp("sources"), 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_watch_that_is_killed_and_started_again_goes_on(sources, failing_look, tmp_path, takeset, seed):
    """Takes arrive while the watch is killed at some change of its output; the end is what one run makes of them."""
    chance, stops = random.Random(seed), 0
    incoming = tmp_path / "in"
    incoming.mkdir()
    for turn, take in enumerate(sources):
        order = files_of(take)
        chance.shuffle(order)
        cut = chance.randrange(len(order))
        arrive(take, incoming / take.name, order[:cut])
        environment = stopping(failing_look, "change", tmp_path / "out", 3 + 7 * turn + 3 * seed)
        with Watch(incoming, output=tmp_path / "out", settle=0.2, env=environment) as watch:
            arrive(take, incoming / take.name, order[cut:])
            watch.wait_for(lambda: is_stopped(watch.process.pid) or take.name in published(tmp_path / "out"), "a stop or the end")
            stops += is_stopped(watch.process.pid)
            watch.kill()
    assert stops > len(sources) // 2
    with Watch(incoming, output=tmp_path / "out", settle=0.2) as watch:
        watch.wait_until_published({take.name for take in sources})
        assert watch.stop() == 0
    takeset.convert(incoming, output=tmp_path / "once")
    assert outputs(tmp_path / "out") == outputs(tmp_path / "once")
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.slow
def test_what_is_sealed_when_the_watch_is_told_to_stop_is_published(sources, takeset, failing_look, tmp_path):
    """The signal arrives in the middle of a batch."""
    incoming = tmp_path / "in"
    for index in range(6):
        shutil.copytree(sources[index], incoming / f"t{index:02}")
    environment = stopping(failing_look, "rename", tmp_path / "out/episodes", 2)
    with Watch(incoming, output=tmp_path / "out", arguments=["--jobs", "1"], env=environment) as watch:
        watch.wait_for(lambda: is_stopped(watch.process.pid), "the second shard")
        watch.process.send_signal(signal.SIGINT)
        watch.process.send_signal(signal.SIGCONT)
        assert watch.process.wait(300) == 0
        watch.reader.join(300)
    assert 1 <= len(watch.takes()) < 6 and published(tmp_path / "out") == set(watch.takes())
    assert not [p for p in (tmp_path / "out/episodes").iterdir() if p.name.startswith(".")]
    takeset("verify", tmp_path / "out", check=0)
    takeset.convert(incoming, output=tmp_path / "out")
    takeset.convert(incoming, output=tmp_path / "once")
    assert outputs(tmp_path / "out") == outputs(tmp_path / "once")


@pytest.mark.slow
def test_a_full_disk_is_waited_for(sources, tmp_path, takeset):
    incoming = tmp_path / "in"
    incoming.mkdir()
    shutil.copytree(sources[0], incoming / "t0")
    unmount = mount_tmpfs(tmp_path / "disk", "8m")
    try:
        with Watch(incoming, output=tmp_path / "disk/out", arguments=["--metrics", tmp_path / "m.prom"]) as watch:
            watch.wait_until_published({"t0"})
            with open(tmp_path / "disk/ballast", "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    pass
            shutil.copytree(sources[1], incoming / "t1")
            watch.wait_for(lambda: watch.events("output-blocked"), "the full disk")
            (event,) = watch.events("output-blocked")
            assert "No space left on device" in event["message"] and event["level"] == "error"
            assert 'takeset_output_blocked{dataset="%s"} 1\n' % (tmp_path / "disk/out") in (tmp_path / "m.prom").read_text()
            watch.wait_for(lambda: len(watch.events("batch")) >= 3, "another attempt")
            assert len(watch.events("output-blocked")) == 1 and published(tmp_path / "disk/out") == {"t0"}
            os.unlink(tmp_path / "disk/ballast")
            watch.wait_until_published({"t0", "t1"})
            watch.wait_for(lambda: watch.events("output-freed"), "the end of the wait")
            assert watch.stop() == 0 and watch.takes("failed") == []
        shutil.copytree(tmp_path / "disk/out", tmp_path / "out")
    finally:
        unmount()
    takeset.convert(incoming, output=tmp_path / "once")
    assert outputs(tmp_path / "out") == outputs(tmp_path / "once")


@pytest.mark.slow
def test_an_output_that_goes_away_and_comes_back_is_written_on(sources, tmp_path, takeset):
    incoming = tmp_path / "in"
    incoming.mkdir()
    shutil.copytree(sources[0], incoming / "t0")
    with Watch(incoming, output=tmp_path / "out") as watch:
        watch.wait_until_published({"t0"})
        (tmp_path / "out").rename(tmp_path / "away")
        shutil.copytree(sources[1], incoming / "t1")
        watch.wait_for(lambda: watch.events("output-blocked"), "the loss")
        assert not (tmp_path / "out").exists()  # nothing is written below the place of a disk that is not mounted
        (tmp_path / "away").rename(tmp_path / "out")
        watch.wait_until_published({"t0", "t1"})
        assert watch.stop() == 0


@pytest.mark.slow
def test_thousands_of_small_changes_do_not_fill_memory(sources, tmp_path):
    incoming = tmp_path / "in"
    (incoming / "notes").mkdir(parents=True)
    shutil.copytree(sources[0], incoming / "t0")
    with Watch(incoming, output=tmp_path / "out", settle=0.1) as watch:
        watch.wait_until_published({"t0"})
        assert watch.stop() == 0
    with Watch(incoming, output=tmp_path / "out", settle=600) as watch:
        shutil.copytree(sources[1], incoming / "t1")

        def change(count):
            for number in range(count):
                if number % 100 == 0:
                    watch.look()
                (incoming / "t1/notes.txt").write_text(str(number))
                (incoming / "notes" / f"{number % 50}.txt").write_text(str(number))
                if number % 10 == 0:
                    (incoming / "notes" / f"{number % 50}.txt").unlink()

        change(1000)
        before = watch.resident()
        change(3000)
        after = watch.resident()
        assert watch.takes() == []  # t1 has not rested
        assert after < before + (4 << 20), (before, after)
        assert watch.stop() == 0
    with Watch(incoming, output=tmp_path / "out", settle=0.1) as watch:
        watch.wait_until_published({"t0", "t1"})
        assert watch.takes() == ["t1"] and watch.takes("failed") == []
        assert watch.stop() == 0


@pytest.mark.slow
def test_a_stream_of_takes_is_published_every_few_seconds_at_most(sources, tmp_path, takeset):
    """Forty takes, one after the other."""
    incoming = tmp_path / "in"
    incoming.mkdir()
    begun = time.monotonic()
    with Watch(incoming, output=tmp_path / "out", settle=0.2) as watch:
        for index in range(40):
            shutil.copytree(sources[index % 6], tmp_path / "copy")
            (tmp_path / "copy").rename(incoming / f"s{index:02}")
            if index == 0:
                watch.wait_for(lambda: watch.events("published"), "the first")
            time.sleep(0.1)
        watch.wait_until_published({f"s{index:02}" for index in range(40)})
        seconds = time.monotonic() - begun
        publications = len(watch.events("published"))
        assert 2 <= publications <= seconds / 2 + 2, (publications, seconds)
        assert sorted(watch.takes()) == [f"s{index:02}" for index in range(40)]  # each once
        assert watch.stop() == 0
    takeset("verify", tmp_path / "out", check=0)


@pytest.mark.slow
def test_memory_stays_flat_over_many_takes(sources, tmp_path):
    """What grows with takes is a few hundred bytes each: hundreds of takes come."""
    incoming = tmp_path / "in"
    incoming.mkdir()
    with Watch(incoming, output=tmp_path / "out", settle=0.1) as watch:
        sizes = []
        for batch in range(4):
            for index in range(60):
                shutil.copytree(sources[index % 6], tmp_path / "copy")
                (tmp_path / "copy").rename(incoming / f"b{batch}-{index:02}")
            count = (batch + 1) * 60
            watch.wait_for(lambda: len(watch.takes()) == count, f"{count} takes")
            watch.wait_until_published(set(watch.takes()))
            sizes.append(watch.resident())
        assert sizes[-1] - sizes[1] < 120 * 20_000 + (4 << 20), sizes
        assert watch.stop() == 0
