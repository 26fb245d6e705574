"""`takeset run --watch`: takes are converted when they are complete, whatever the order and the way in which they arrive."""

import json
import os
import random
import shutil
import signal
import zipfile

import pytest
from run_outputs import outputs
from watching import Watch, arrive, files_of, published, small_takes


@pytest.fixture(scope="module")
def sources(takeset, tmp_path_factory):
    return small_takes(takeset, tmp_path_factory.mktemp("sources"), 6)


@pytest.fixture
def incoming(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def zipped(source, path):
    with zipfile.ZipFile(path, "w") as archive:
        for file in files_of(source):
            archive.write(source / file, f"{source.name}/{file}")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_take_that_arrives_slowly_in_any_order_is_converted_once_and_whole(sources, incoming, tmp_path, takeset, seed):
    order = files_of(sources[0])
    random.Random(seed).shuffle(order)
    with Watch(incoming, output=tmp_path / "out") as watch:
        arrive(sources[0], incoming / "t0", order[:-1], pause=0.05)
        watch.rest()  # one file is missing
        if order[-1] != "truth.json" and not order[-1].startswith("encoders"):
            assert watch.takes() == [] and watch.takes("failed") == []
        arrive(sources[0], incoming / "t0", order[-1:])
        watch.wait_until_published({"t0"})
        assert watch.stop() == 0
        assert watch.takes("failed") == []
    takeset.convert(sources[0], output=tmp_path / "once")
    assert outputs(tmp_path / "out") == outputs(tmp_path / "once")


@pytest.mark.slow
def test_a_session_whose_images_are_fewer_than_it_lists_is_named_and_waits(sources, incoming, tmp_path):
    shutil.copytree(sources[1], incoming / "t1")
    image = sorted((incoming / "t1/rgb").iterdir())[3]
    held = image.read_bytes()
    image.unlink()
    count = json.loads((sources[1] / "metadata.json").read_text())["rgbFrameCount"]
    with Watch(incoming, output=tmp_path / "out", settle=0.1) as watch:
        watch.wait_for(lambda: watch.events("incomplete"), "naming the take")
        event, = watch.events("incomplete")
        assert event["path"] == str(incoming / "t1") and event["level"] == "warning"
        assert f"lists {count} images, rgb has {count - 1}" in event["reason"]
        watch.rest(0.6)  # looks at all files are half a second apart
        watch.rest(0.6)
        assert len(watch.events("incomplete")) == 1 and watch.events("take") == []
        (tmp_path / "image").write_bytes(held)
        os.rename(tmp_path / "image", image)
        watch.wait_until_published({"t1"})
        assert watch.stop(signal.SIGINT) == 0


@pytest.mark.slow
def test_archives_written_in_place_and_renamed_into_place(sources, incoming, tmp_path, takeset):
    a, b = zipped(sources[0], tmp_path / "t0.zip"), zipped(sources[1], tmp_path / "t1.zip")
    with Watch(incoming, output=tmp_path / "out") as watch:
        data = a.read_bytes()
        with open(incoming / "t0.zip", "wb") as file:
            half = len(data) // 2
            file.write(data[:half])
            file.flush()
            watch.rest()  # but it cannot be listed
            assert watch.events("take") == []
            for start in range(half, len(data), 4096):
                file.write(data[start : start + 4096])
                file.flush()
        shutil.copyfile(b, incoming / "t1.zip.part")
        watch.rest()
        assert "t1" not in watch.takes() and watch.takes("failed") == []
        os.rename(incoming / "t1.zip.part", incoming / "t1.zip")
        watch.wait_until_published({"t0", "t1"})
        assert watch.stop() == 0
    takeset.convert(a, b, output=tmp_path / "once")
    assert outputs(tmp_path / "out") == outputs(tmp_path / "once")


@pytest.mark.slow
def test_a_name_of_a_file_that_is_being_written_holds_its_take_back(sources, incoming, tmp_path):
    shutil.copytree(sources[2], incoming / "t2")
    (incoming / "t2/rgb/000099.jpg.tmp").write_bytes(b"x")
    with Watch(incoming, output=tmp_path / "out", settle=0.1) as watch:
        watch.wait_for(lambda: watch.events("incomplete"), "naming the take")
        assert "000099.jpg.tmp" in watch.events("incomplete")[0]["reason"] and watch.events("take") == []
        (incoming / "t2/rgb/000099.jpg.tmp").unlink()
        watch.wait_until_published({"t2"})


@pytest.mark.slow
def test_a_take_that_changes_is_converted_again_and_one_that_failed_is_mended(sources, incoming, tmp_path, takeset):
    shutil.copytree(sources[0], incoming / "t0")
    shutil.copytree(sources[1], incoming / "t1")
    (incoming / "t1/poses.json").write_text("[{")
    with Watch(incoming, output=tmp_path / "out") as watch:
        watch.wait_for(lambda: watch.takes() == ["t0"] and watch.takes("failed") == ["t1"], "one of each")
        watch.rest()
        assert len(watch.events("take")) == 2  # a take that failed is not tried again while it is the same
        shutil.copyfile(sources[1] / "poses.json", incoming / "t1/poses.json")
        watch.wait_until_published({"t0", "t1"})
        shutil.copyfile(sources[2] / "metadata.json", incoming / "t0/metadata.json.new")
        os.rename(incoming / "t0/metadata.json.new", incoming / "t0/metadata.json")
        watch.wait_for(lambda: watch.takes().count("t0") == 2, "the second conversion")
        assert watch.stop() == 0  # no failure is left
    takeset.convert(incoming, output=tmp_path / "once")
    assert outputs(tmp_path / "out") == outputs(tmp_path / "once")


@pytest.mark.slow
def test_an_input_that_is_missing_and_comes_back_is_no_reason_to_end(sources, incoming, tmp_path, takeset):
    shutil.copytree(sources[0], incoming / "t0")
    other = tmp_path / "other"
    other.mkdir()
    with Watch(incoming, other, output=tmp_path / "out") as watch:
        watch.wait_until_published({"t0"})
        incoming.rename(tmp_path / "away")
        watch.wait_for(lambda: watch.events("input-missing"), "the loss")
        shutil.copytree(sources[1], other / "t1")
        watch.wait_until_published({"t0", "t1"})
        record = json.loads((tmp_path / "out/manifest.json").read_text())["record"]["takes"][0]
        assert "input-vanished" not in json.dumps(record)  # it is only out of reach
        (tmp_path / "away").rename(incoming)
        shutil.copytree(sources[2], incoming / "t2")
        watch.wait_until_published({"t0", "t1", "t2"})
        assert [e["path"] for e in watch.events("input-back")] == [str(incoming)]
        assert watch.takes().count("t0") == 1
        assert watch.stop() == 0


@pytest.mark.slow
def test_two_never_write_into_one_output(sources, incoming, tmp_path, takeset):
    shutil.copytree(sources[0], incoming / "t0")
    with Watch(incoming, output=tmp_path / "out") as watch:
        watch.wait_until_published({"t0"})
        for arguments in ([], ["--watch", "--settle", "0.2"]):
            done = takeset("run", incoming, "--output", tmp_path / "out", *arguments, check=1)
            assert "another run is writing" in done.stderr
        assert watch.stop() == 0
    takeset("run", incoming, "--output", tmp_path / "out", check=0)


def test_options_that_make_no_sense_with_a_watch_are_refused(takeset, incoming, tmp_path):
    for arguments in (["--watch", "--prune"], ["--watch", "--on-failure", "stop"], ["--watch", "--fail-on", "warning"], ["--settle", "3"], ["--watch", "--settle", "0"]):
        takeset("run", incoming, "--output", tmp_path / "out", *arguments, check=64)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_what_is_not_read_is_named_once(sources, incoming, tmp_path):
    shutil.copytree(sources[0], f"{incoming}/caf\udce9")  # Latin-1
    (incoming / "link").symlink_to(sources[1])
    os.mkfifo(incoming / "pipe.mov")
    with Watch(incoming, output=tmp_path / "out", settle=0.1) as watch:
        watch.wait_for(lambda: len(watch.notes()) == 3, "naming them")
        shutil.copytree(sources[2], incoming / "t2")
        watch.wait_until_published({"t2"})
        watch.look()
        notes = "\n".join(event["message"] for event in watch.notes())
        assert len(watch.notes()) == 3 and all(event["level"] == "warning" for event in watch.notes())
        assert "its name is not UTF-8" in notes and f"{incoming}/link is a symbolic link" in notes and f"{incoming}/pipe.mov is neither" in notes
        assert watch.stop() == 0


@pytest.mark.slow
def test_a_take_that_the_pipeline_cannot_convert_fails_and_ends_nothing(takeset, sources, incoming, tmp_path):
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [{resize-image: {width: 32, height: 24}}]\n")
    with Watch(incoming, output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml"]) as watch:
        shutil.copytree(sources[0], incoming / "t0")
        watch.wait_for(lambda: watch.takes("failed") == ["t0"], "the failure")
        event, = watch.events("take")
        assert event["code"] == "not-aligned" and "needs the step align" in event["reason"]
        takeset("simulate", "slow-motion-video", "--output", incoming / "slow.mov", "--seconds", 0.2, "--size", "64x48", check=0)
        watch.wait_for(lambda: len(published(tmp_path / "out")) == 1, "publishing the movie")
        assert watch.stop() == 3


@pytest.mark.slow
def test_the_dataset_that_a_watch_replaces_stays_until_takes_replace_it(takeset, sources, incoming, tmp_path):
    takeset.convert(sources[0], output=tmp_path / "out")
    before = outputs(tmp_path / "out")
    (tmp_path / "p.yaml").write_text("version: 1\ntransforms: [align]\n")
    with Watch(incoming, output=tmp_path / "out", arguments=["--pipeline", tmp_path / "p.yaml", "--replace"]) as watch:
        watch.rest()
        assert outputs(tmp_path / "out") == before
        shutil.copytree(sources[1], incoming / "t1")
        watch.wait_until_published({"t1"})
        assert watch.stop() == 0


@pytest.mark.parametrize("ignored", [False, True])
def test_a_hangup_ends_a_watch_unless_it_was_started_to_ignore_it(incoming, tmp_path, ignored):
    """nohup starts programs with SIGHUP ignored."""
    with Watch(incoming, output=tmp_path / "out", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)) as watch:
        watch.process.send_signal(signal.SIGHUP)
        if ignored:
            watch.look()
            watch.look()
            assert watch.process.poll() is None and watch.stop() == 0
        else:
            assert watch.process.wait(timeout=300) == 0


def test_a_watch_of_nothing_makes_no_dataset_and_ends_when_told(incoming, tmp_path):
    with Watch(incoming, output=tmp_path / "out") as watch:
        watch.rest()
        assert watch.stop() == 0
    assert not (tmp_path / "out/manifest.json").exists() and published(tmp_path / "out") == set()


def test_a_movie_converted_before_the_rest_of_its_take_arrived_is_removed(takeset, incoming, tmp_path):
    take = tmp_path / "take/a"
    takeset("simulate", "iphumi", "--output", take, "--size", "96x72", "--seconds", 0.3, check=0)
    arrive(take, incoming, ["a_rgb.mp4"])
    takeset.convert(incoming, output=tmp_path / "out")
    arrive(take, incoming, [file for file in files_of(take) if file != "truth.json"])
    run = takeset("run", incoming, "--output", tmp_path / "out", check=0)
    assert "a_rgb: removed because it is part of another take now" in run.stderr
    takeset.convert(incoming, output=tmp_path / "once")
    assert outputs(tmp_path / "out") == outputs(tmp_path / "once")


def test_an_episode_stays_whose_files_no_written_take_has(takeset, incoming, tmp_path):
    take = tmp_path / "take/a"
    takeset("simulate", "iphumi", "--output", take, "--size", "96x72", "--seconds", 0.3, check=0)
    arrive(take, incoming, ["a_rgb.mp4"])
    shutil.copytree(takeset.simulate(tmp_path / "s", "--seconds", 0.2, "--size", "64x48"), incoming / "s1")
    takeset.convert(incoming, output=tmp_path / "out")
    # The list is damaged, and a file beside the sessions makes a take of the whole input, which fails.
    (incoming / "a.json").write_text((take / "a.json").read_text()[:200])
    (incoming / "transforms.json").write_text('{"frames": []}')
    arrive(take, incoming, ["a_depth.raw"])
    takeset("run", incoming, "--output", tmp_path / "out", check=3)
    assert {"a_rgb", "s1"} <= published(tmp_path / "out")
