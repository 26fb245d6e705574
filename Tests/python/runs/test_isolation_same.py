"""Datasets do not depend on where takes are converted: in the command's own process or in children that can reach nothing else."""

import os

import archives
import pytest
import quirks
import small_sessions
from batches import BAD, GOOD
from bundles import SMALL, Device, bundle
from chain_checks import final
from conversions import PLAIN
from outputs import manifest
from resample_oracle import steps, uneven
from scans import session as scan
from stack_sessions import UNEVEN, v2, write, zipped
from strange_takes import assert_same
from system import as_nobody
from videos import video_file

POLICIES = {"never": 1, "auto": 2, "always": 8}  # each with a number of jobs, which does not show either


def same(takeset, takes, root, *arguments, check=0):
    """Converts with every policy; the datasets must be equal. The entries of one of them by id."""
    for policy, jobs in POLICIES.items():
        output = root / policy
        takeset.convert(takes, output=output, arguments=["--isolate", policy, "--jobs", jobs, *arguments], check=check)
        assert_same(root / "never", output)
    takeset("verify", root / "always", check=0)
    found = {entry["id"]: entry for entry in manifest(root / "always")["record"]["takes"]}
    # A second run finds what the children have recorded, whatever the policy.
    for policy in POLICIES:
        again = takeset.convert(takes, output=root / "always", arguments=["--isolate", policy, *arguments], check=check)
        assert "nothing to do" in again.stdout or check
    assert_same(root / "never", root / "always")
    return found


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A take of every reader and variant, as folders and in every kind of file; and one with each fault."""
    root = tmp_path_factory.mktemp("mixed") / "takes"
    root.mkdir()
    kinds = GOOD | {kind: make for kind, (_, make) in BAD.items()}
    for number, (kind, make) in enumerate(kinds.items()):
        make(root / f"{kind}-{number}", number)
    bundle(20).write(root / "bundle-headerless")
    contents = v2().contents()
    (root / "described.zip").write_bytes(zipped(contents, "described"))
    (root / "described.metadata.json").write_bytes(contents["metadata.json"])
    # A folder and its archive.
    small = small_sessions.session("v1")
    write(root / "copied", small)
    (root / "copied.zip").write_bytes(archives.zip_of(small, root="copied"))
    (root / "mpeg4-video.mov").write_bytes(video_file(20, codec="mpeg4"))
    scan(times="number", codec="hevc").zip(root / "scan-zip.zip", top="scan/")
    return root


@pytest.mark.parametrize("arguments", [pytest.param((), marks=pytest.mark.slow), PLAIN], ids=["default", "plain"])
def test_every_reader_reads_the_same_in_a_child(takeset, mixed, tmp_path, arguments):
    found = same(takeset, mixed, tmp_path, *arguments, check=3)
    assert {name.rpartition("-")[0] for name, entry in found.items() if entry["outcome"] == "failed"} == {*BAD, "mpeg4"}
    readers = {entry["reader"] for entry in found.values() if entry["outcome"] == "written"}
    assert len(readers) >= 4, readers


def test_keys_reach_the_child(takeset, keys, tmp_path):
    for phone in 1, 2, 3:  # of the third there is no key
        sent = bundle(12, checkpoints=(12,), **SMALL)
        sent.metadata["assertion"] = Device(phone).assertion(final(sent))
        sent.write(tmp_path / f"takes/bundle-{phone}")
    found = same(takeset, tmp_path / "takes", tmp_path, *keys)
    states = {name: {f["code"] for f in entry["findings"] if f["code"].startswith("assertion-")} for name, entry in found.items()}
    assert states["bundle-1"] == states["bundle-2"] != states["bundle-3"], states


def test_takes_in_several_episodes_and_rejected_takes(takeset, tmp_path):
    for k in range(2):
        uneven(40, seed=k).write(tmp_path / f"takes/t{k}")
    (tmp_path / "takes/pour.mov").write_bytes(video_file(ticks=UNEVEN))
    (tmp_path / "takes/short.mov").write_bytes(video_file(3))
    pipeline = steps(tmp_path, {"align": {}}, {"split-episodes": {"at": "gaps"}}, {"min-frames": {"count": 5}}, "split")
    found = same(takeset, tmp_path / "takes", tmp_path, *pipeline)
    assert {"pour.0", "pour.1", "t0.0", "t0.1", "t1.0", "t1.1"} <= found.keys()
    assert "rejected" in {entry["outcome"] for entry in found.values()}, found


def test_a_take_that_was_written_and_now_fails_loses_its_shard(takeset, tmp_path):
    (tmp_path / "takes").mkdir()
    path = tmp_path / "takes/pour.mov"
    for policy in POLICIES:
        path.write_bytes(video_file(20))
        takeset.convert(tmp_path / "takes", output=tmp_path / policy, arguments=["--isolate", policy])
        path.write_bytes(video_file(20)[:-900])
        takeset.convert(tmp_path / "takes", output=tmp_path / policy, arguments=["--isolate", policy], check=3)
        assert list((tmp_path / policy / "episodes").iterdir()) == []


def test_inputs_behind_links_and_odd_names(takeset, tmp_path):
    """The child may read what a path leads to, also over links on the way to it and with names that need quoting elsewhere."""
    real = tmp_path / "real place"
    write(real / "säge 'n\" $x", small_sessions.session("v1"))
    (real / "a b.zip").write_bytes(archives.zip_of(small_sessions.session("v2"), root="x"))
    (tmp_path / "takes").symlink_to(real)
    found = same(takeset, tmp_path / "takes", tmp_path)
    assert [entry["outcome"] for entry in found.values()] == ["written"] * 2
    relative = takeset("run", ".", "--output", tmp_path / "relative", "--isolate", "always", cwd=real)
    assert relative.returncode == 0, relative.stderr
    assert sorted(p.name for p in (tmp_path / "relative/episodes").iterdir()) == sorted(p.name for p in (tmp_path / "never/episodes").iterdir())


@pytest.mark.slow
def test_every_quirk_is_the_same_in_a_child(takeset, batch, tmp_path):
    assert len(quirks.QUIRKS) > 50
    same(takeset, batch.root / "in", tmp_path, *PLAIN, check=batch.done.returncode)
    assert_same(batch.root / "out", tmp_path / "always")


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_a_user_without_rights_converts_the_same(takeset, mixed, tmp_path):
    """Nothing of the confinement needs root."""
    takeset.convert(mixed, output=tmp_path / "root", arguments=["--isolate", "always"], check=3)
    (tmp_path / "nobody").mkdir()
    os.chown(tmp_path / "nobody", 65534, 65534)
    for parent in [tmp_path, *tmp_path.parents, *mixed.parents]:
        if not parent.stat().st_mode & 1:
            parent.chmod(parent.stat().st_mode | 0o011)
    command = ["run", mixed, "--output", tmp_path / "nobody/out", "--isolate", "always"]
    takeset(*command, check=3, preexec_fn=as_nobody)
    assert_same(tmp_path / "root", tmp_path / "nobody/out")
