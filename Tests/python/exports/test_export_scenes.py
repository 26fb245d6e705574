"""What exports of scenes have in common: the same bytes whatever the jobs, full disks, damaged datasets, takes that they cannot hold."""

import pytest
from export_checks import check_full_disk, check_output, damaged, refuses
from geometry_oracle import Runs
from scene_exports import simulate_takes
from scene_oracle import export, lost
from stack_sessions import still, v3_slam
from videos import video_file

pytestmark = pytest.mark.parametrize("form", ["colmap", "nerfstudio"])


@pytest.fixture(scope="module")
def runs(takeset, tmp_path_factory):
    found = Runs(takeset, tmp_path_factory.mktemp("scenes"), {})
    simulate_takes(takeset, found.inputs)
    return found


@pytest.fixture(scope="module")
def lacking(takeset, tmp_path_factory):
    """A dataset of takes without intrinsics, without poses, and with poses in a world of unknown scale."""
    return Runs(takeset, tmp_path_factory.mktemp("lacking"), {"bare": still(), "pour.mov": video_file(count=6), "slam": v3_slam()}).output()


def test_outputs_are_whole_and_the_same_whatever_the_jobs(runs, takeset, tmp_path, form):
    check_output(takeset, runs.output(default=True), form, tmp_path, "--points", 0.1)


def test_a_full_disk(runs, takeset, tmp_path, form):
    check_full_disk(takeset, runs.output(default=True), form, tmp_path, limit=20_000)


def test_a_damaged_dataset_is_named(runs, takeset, tmp_path, form):
    broken = damaged(runs.output(writer={"image-compression": 6}), tmp_path / "set", "scan")
    sentence = refuses(takeset, broken, form, tmp_path / "out")
    assert "row 7 of camera_image of scan cannot be read" in sentence and "takeset verify" in sentence


def test_takes_that_lack_something_are_refused_by_name(lacking, takeset, tmp_path, form):
    done = export(takeset, lacking, form, tmp_path / "out", check=65)
    for words in "pour has no poses", "bare, pour have no intrinsics", "--episodes":
        assert words in done.stderr, done.stderr
    assert "slam" not in done.stderr and not (tmp_path / "out").exists()
    done = export(takeset, lacking, form, tmp_path / "out", "--episodes", "bare", check=65)
    assert "bare has no intrinsics" in done.stderr and "--episodes" not in done.stderr
    export(takeset, lacking, form, tmp_path / "out", "--episodes", "slam")
    assert any("arbitrary" in words for words in lost(tmp_path / "out", "slam"))
    done = export(takeset, lacking, form, tmp_path / "points", "--episodes", "slam", "--points", 0.1, check=65)
    assert "slam has no depth maps" in done.stderr and not (tmp_path / "points").exists()
