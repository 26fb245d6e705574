"""`takeset run --watch` of takes that are joined: phones that arrive, change and vanish in any order, against one run of all."""

import json
import shutil

import pytest
from outputs import manifest
from run_outputs import outputs
from watching import Watch

LEFT_RIGHT = {"left": "*-left", "right": "*-right"}


def pipeline(folder, join):
    path = folder / "join.yaml"
    path.write_text(json.dumps({"version": 1, "join": join, "transforms": ["align"]}))
    return path


@pytest.fixture(scope="module")
def phones(takeset, tmp_path_factory):
    """Sessions of two phones at one time, by side; and others of a later time."""
    root = tmp_path_factory.mktemp("phones")
    found = {}
    for number, time in enumerate(("2026-03-01T13:00:00Z", "2026-03-01T13:00:00.1Z")):
        takeset("simulate", "stack-session", "-o", root / str(number), "--phones", "left,right", "--seconds", "0.3", "--size", "64x48",
                "--seed", str(5 + number), "--start-time", time, check=0)  # fmt: skip
        for side in LEFT_RIGHT:
            found[number, side] = root / f"{number}/{number}-{side}"
    return found


@pytest.fixture
def incoming(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def watched(takeset, incoming, tmp_path):
    """A watch of pairs by name, that in the end has made what one run makes."""
    file = pipeline(tmp_path, {"by": "name", "members": LEFT_RIGHT})
    with Watch(incoming, output=tmp_path / "out", settle=0.1, arguments=["--pipeline", file]) as watch:
        yield watch
        watch.rest()
        assert watch.stop() == (3 if watch.takes("failed") else 0)
    takeset("run", incoming, "-o", tmp_path / "once", "--pipeline", file)
    once = {entry["id"] for entry in manifest(tmp_path / "once")["record"]["takes"] if entry["outcome"] == "written"}
    shards = [{path.name: path.read_bytes() for path in (output / "episodes").iterdir()} for output in (tmp_path / "out", tmp_path / "once")]
    assert shards[0] == shards[1] and {name.removesuffix(".h5") for name in shards[0]} == once


def test_a_watch_converts_a_group_once_all_of_its_phones_have_arrived(takeset, tmp_path):
    sources = {name: session(takeset, tmp_path / "sources" / name) for name in ("one", "two")}
    incoming = tmp_path / "in"
    for name in sources:
        (incoming / name).mkdir(parents=True)

    def arrives(name, side):
        for file in sorted(sources[name].glob(f"{side}*"), reverse=True):
            shutil.copy(file, incoming / name)

    join = {"members": {"left": "*-left", "right": "*-right"}, "incomplete": "alone"}
    file = pipeline(tmp_path, join)
    with Watch(incoming, output=tmp_path / "out", settle=0.1, arguments=["--pipeline", file]) as watch:
        arrives("one", "left")
        arrives("two", "right")
        watch.wait_for(lambda: len(watch.events("incomplete")) == 2, "naming what waits")
        assert {event["reason"] for event in watch.events("incomplete")} == {
            f"its group has no take of {side} yet" for side in ("left", "right")}  # fmt: skip
        assert watch.events("take") == []
        arrives("two", "left")
        watch.wait_until_published({"two"})
        assert watch.takes() == ["two"]
        takeset("simulate", "stack-session", "-o", incoming / "other", "--seconds", "0.3", "--size", "64x48", check=0)
        watch.wait_until_published({"two", "other"})
        arrives("one", "right")
        watch.wait_until_published({"one", "two", "other"})
        # A phone's files that change make the whole group anew.
        again = incoming / "two/left.json"
        again.write_text(json.dumps(json.loads(again.read_text())))
        watch.wait_for(lambda: watch.takes().count("two") == 2, "the conversion of what changed")
        watch.rest()
        assert watch.stop() == 0 and watch.takes("failed") == []
    takeset("run", incoming, "-o", tmp_path / "once", "--pipeline", file, check=0)
    assert outputs(tmp_path / "out") == outputs(tmp_path / "once")


def session(takeset, folder):
    takeset("simulate", "iphumi", "-o", folder, "--seconds", 1, "--size", "96x72", "--phones", "left,right", check=0)
    return folder


def arrives(source, incoming, place):
    shutil.copytree(source, incoming.parent / "arriving")
    (incoming / place).parent.mkdir(exist_ok=True)
    (incoming.parent / "arriving").rename(incoming / place)


def test_groups_of_one_name_whose_phones_arrive_crosswise(phones, incoming, watched):
    """Each folder has a group, which a watch cannot know when the first phones arrive; in the end no pair is of two folders."""
    arrives(phones[0, "left"], incoming, "A/pick-left")
    arrives(phones[0, "right"], incoming, "A/pick-right")
    watched.wait_for(lambda: watched.takes() == ["pick"], "the first pair")
    arrives(phones[1, "left"], incoming, "B/pick-left")
    watched.rest()
    arrives(phones[1, "right"], incoming, "B/pick-right")
    watched.wait_until_published({"pick", "pick-2"})


def test_a_take_that_was_ambiguous_is_joined_when_its_rival_is_gone(phones, incoming, watched):
    arrives(phones[0, "left"], incoming, "pick-left")
    arrives(phones[1, "left"], incoming, "pick_left")
    (incoming / "pick_left").rename(incoming / "pick--left")
    watched.wait_for(lambda: len(watched.takes("failed")) >= 2, "the failures")
    shutil.rmtree(incoming / "pick--left")
    arrives(phones[0, "right"], incoming, "pick-right")
    watched.wait_until_published({"pick"})


def test_a_member_that_moves_to_another_folder_stays_in_its_group(phones, incoming, watched):
    for side in LEFT_RIGHT:
        arrives(phones[0, side], incoming, f"pick-{side}")
    watched.wait_until_published({"pick"})
    (incoming / "redo").mkdir()
    (incoming / "pick-right").rename(incoming / "redo/pick-right")
    watched.wait_for(lambda: watched.takes().count("pick") == 2, "the conversion from the new place")


def test_a_group_waits_while_files_of_a_member_change(phones, incoming, watched):
    """The left one was complete, and is being written again when the right one comes."""
    arrives(phones[0, "left"], incoming, "pick-left")
    watched.rest()
    (incoming / "pick-left/more.tmp").write_text("")
    watched.look()
    arrives(phones[0, "right"], incoming, "pick-right")
    watched.rest()
    assert watched.takes() == [] and watched.takes("failed") == []
    (incoming / "pick-left/more.tmp").unlink()
    watched.wait_until_published({"pick"})


def test_takes_that_are_ambiguous_are_given_out_together(phones, incoming, watched):
    """The last one by itself would be a group that lacks a phone."""
    arrives(phones[0, "left"], incoming, "pick-left")
    arrives(phones[1, "left"], incoming, "pick--left")
    watched.wait_for(lambda: len(watched.takes("failed")) >= 2, "the failures")
    arrives(phones[0, "right"], incoming, "pick-right")
    watched.wait_for(lambda: "pick-right" in watched.takes("failed"), "the failure of the third")
    assert watched.takes() == [] and watched.takes("rejected") == []


def test_what_becomes_complete_just_after_a_batch_is_not_forgotten(phones, incoming, watched):
    for name, source in ("pick-left", (0, "left")), ("pick--left", (1, "left")), ("pick-right", (0, "right")):
        arrives(phones[source], incoming, name)
    watched.wait_for(lambda: len(watched.takes("failed")) >= 3, "the failures")
    shutil.rmtree(incoming / "pick--left")
    watched.wait_until_published({"pick"})
