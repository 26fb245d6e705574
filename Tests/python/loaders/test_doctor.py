"""`verify --for`: each rule finds what another program did to a dataset, and nothing in its clean twin; the command's words."""

import json
import shlex

import h5py
import numpy as np
import pytest
from doctor_sets import (
    DEMO, FIRST, META, PIPELINES, SECOND, WINDOWS, beyond_one, checkup, converted, edited, replaced, simulated, too_long, too_short, with_jitter,
    with_masked_actions, with_nan, with_narrow_actions, without_actions, without_columns, without_pose,
)

LOADERS = list(PIPELINES)


@pytest.fixture(scope="module")
def clean(takeset, tmp_path_factory):
    """A dataset without any diagnosis for each loader."""
    root = tmp_path_factory.mktemp("clean")
    stack = simulated(takeset, root / "stack")
    scans = simulated(takeset, root / "scans", reader="stray-scanner", names=("scan-a", "scan-b"))
    return {name: converted(takeset, scans if name == "nerfstudio" else stack, root / name, steps) for name, steps in PIPELINES.items()}


@pytest.fixture
def examined(takeset, clean, tmp_path):
    """Examines a copy of a loader's clean dataset, edited by another program."""

    def examine(loader, *edits, arguments=(), shards=1):
        return checkup(takeset, loader, edited(clean[loader], tmp_path / "copy", lambda file: [edit(file) for edit in edits], shards), *arguments)

    return examine


@pytest.mark.parametrize("loader", LOADERS)
def test_a_clean_dataset_is_ready(takeset, clean, loader):
    found = checkup(takeset, loader, clean[loader])
    assert not found.report["diagnoses"] and found.report["ready"]
    done = takeset("verify", "--for", loader, clean[loader], *WINDOWS.get(loader, []), check=0)
    assert done.stdout == f"{clean[loader]}: ready for {loader}; 2 episodes, {found.report['rows']} rows\n"


# Edits of a shard


def of_complex_numbers(file):
    replaced(file[DEMO]["obs"], "pose", file[DEMO]["obs/pose"][:].astype("c8"))


def without_images(file):
    del file[DEMO]["obs/camera_image"]


def with_infinite_actions(file):
    # The first column of a rotation, which else is at most 1.
    file[DEMO]["actions"][3, 3] = np.inf


def with_undecodable_images(file):
    file[META]["streams/camera_image/valid"][4:7] = 0


def without_some_depth(file):
    file[META]["streams/camera_depth/valid"][4:9] = 0


def with_long_quaternion(file):
    file[DEMO]["obs/pose"][11, 3:] *= 1.2


def with_flipped_quaternion(file):
    file[DEMO]["obs/pose"][12, 3:] *= -1


def with_interpolated_poses(file):
    file[META]["quality"][20:26] |= 4


def with_a_jump(file):
    file[DEMO]["obs/pose"][30:, 0] += 2


def with_lost_tracking(file):
    file[DEMO]["obs/pose"][30:36] = file[DEMO]["obs/pose"][30]


def with_constant_column(file):
    file[DEMO]["actions"][:, 2] = 0.25


def with_one_place(file):
    file[DEMO]["obs/pose"][:, :3] = 1.5


def with_one_angle(file):
    file[DEMO]["obs/joints"][:, 1] = 40


def with_drift(file):
    stamps = file[META]["timestamp_ns"]
    stamps[:] = (stamps[:] * 1.004).astype("i8")


def with_repeated_images(file):
    digests = file[META]["row_sha256/camera_image"]
    digests[10:14] = digests[10]


def in_centimeters(file):
    file[DEMO]["obs/pose"].attrs["unit"] = "arbitrary"


def with_other_axes(file):
    file[DEMO]["obs/pose"].attrs["camera_axes"] = "x right, y down, z forward"


BOTH = 2
# An edit, the code that it is to have, and in how many of the two shards it is made.
EDITS = [
    *(("robomimic", *row) for row in [
        (without_actions, "actions-missing"), (without_columns, "type-wrong"), (of_complex_numbers, "type-wrong"), (too_long, "rows-differ"), (too_short, "rows-differ"),
        (with_narrow_actions, "mixed-sizes"), (without_pose, "key-missing"), (with_nan, "not-finite"), (with_infinite_actions, "not-finite"),
        (with_masked_actions, "rows-masked"), (with_undecodable_images, "image-undecodable"), (beyond_one, "actions-out-of-range"),
        (with_long_quaternion, "quaternion-norm"), (with_flipped_quaternion, "quaternion-sign"), (with_interpolated_poses, "pose-interpolated"),
        (with_a_jump, "pose-jump"), (with_lost_tracking, "pose-repeated"), (with_constant_column, "column-constant", BOTH),
        (with_jitter, "times-uneven"), (with_repeated_images, "images-repeated"), (in_centimeters, "scale-arbitrary", BOTH),
        (with_other_axes, "mixed-units")]),
    *(("aloha", *row) for row in [
        (with_masked_actions, "rows-masked"), (with_nan, "not-finite"), (with_undecodable_images, "image-undecodable"),
        (with_flipped_quaternion, "quaternion-sign"), (with_jitter, "times-uneven"), (with_constant_column, "column-constant", BOTH)]),
    *(("lerobot", *row) for row in [
        (without_actions, "actions-missing"), (without_pose, "key-missing"), (without_images, "key-missing"), (with_nan, "not-finite"),
        (with_jitter, "times-uneven"), (with_drift, "times-uneven"), (with_constant_column, "column-constant", BOTH),
        (with_other_axes, "mixed-units"), (with_undecodable_images, "image-undecodable")]),
    *(("diffusion-policy", *row) for row in [
        (with_masked_actions, "rows-masked"), (with_one_angle, "joint-dead"), (with_a_jump, "pose-jump"), (without_actions, "actions-missing"), (with_narrow_actions, "mixed-sizes")]),
    *(("nerfstudio", *row) for row in [
        (with_nan, "not-finite"), (with_flipped_quaternion, "quaternion-sign"), (with_interpolated_poses, "pose-interpolated"),
        (with_one_place, "camera-still"), (without_some_depth, "rows-masked"), (with_undecodable_images, "image-undecodable")]),
]
BREAKS = {
    "robomimic": {"actions-missing", "type-wrong", "rows-differ", "mixed-sizes", "key-missing"},
    "aloha": {"rows-masked", "not-finite", "image-undecodable"},
    "lerobot": {"actions-missing", "key-missing", "times-uneven", "mixed-units"},
    "diffusion-policy": {"actions-missing", "mixed-sizes"},
    "nerfstudio": {"camera-still"},
}
# What an edit cannot help to change as well.
ALSO = {
    without_columns: {"mixed-sizes"},
    with_infinite_actions: {"actions-out-of-range"}, with_long_quaternion: {"pose-jump"}, without_images: {"images-missing"},
}


@pytest.mark.parametrize("case", EDITS, ids=[f"{case[0]}-{case[1].__name__}" for case in EDITS])
def test_what_another_program_did_is_found(examined, case):
    loader, edit, code, *rest = case
    shards = rest[0] if rest else 1
    found = examined(loader, edit, shards=shards)
    assert found.codes[code] == 1 and set(found.codes) - ALSO.get(edit, set()) == {code}, found.report
    assert ("breaks" if code in BREAKS[loader] and edit != too_long else "trains-badly") == found[code]["severity"]
    named = found[code]["episodes"]
    assert not named or shards == BOTH or code in ("mixed-sizes", "mixed-units") or len(named) == 1


def test_figures_are_those_of_the_arrays(examined, clean):
    found = examined("robomimic", with_nan, beyond_one, with_masked_actions, with_a_jump)
    with h5py.File(clean["robomimic"] / "episodes" / f"{FIRST}.h5") as file:
        rows = len(file[DEMO]["actions"])
    assert found["not-finite"]["message"].startswith(f"pose is NaN or infinite in 1 of {rows} rows of {FIRST};")
    assert found["rows-masked"]["message"].startswith(f"actions are unknown, and 0, in 3 of {rows} rows of {FIRST};")
    assert found["pose-jump"]["message"].startswith(f"1 of {rows} rows of {FIRST} jump")
    assert "up to -1.53 (relative_position 0)" in found["actions-out-of-range"]["message"]
    assert all(found[code]["episodes"] == [FIRST] for code in ("not-finite", "rows-masked", "actions-out-of-range", "pose-jump"))


def test_only_the_observations_that_are_trained_on_count(examined, takeset, clean):
    found = examined("robomimic", with_nan, with_undecodable_images, arguments=["--obs", "camera_image"])
    assert set(found.codes) == {"image-undecodable"}
    done = takeset("verify", "--for", "robomimic", clean["robomimic"], "--obs", "poes", check=64)
    assert "has an observation poes; did you mean pose?" in done.stderr


def test_a_missing_or_damaged_shard_is_named(takeset, clean, tmp_path):
    copy = edited(clean["robomimic"], tmp_path / "copy", lambda file: None)
    shard = copy / "episodes" / f"{SECOND}.h5"
    shard.unlink()
    found = checkup(takeset, "robomimic", copy)
    assert found.breaks == {"episode-unreadable"} and found["episode-unreadable"]["episodes"] == [SECOND]
    shard.write_bytes(b"not HDF5")
    assert checkup(takeset, "robomimic", copy).breaks == {"episode-unreadable"}


def test_a_link_out_of_the_dataset_is_not_followed(takeset, clean, tmp_path):
    copy = edited(clean["robomimic"], tmp_path / "copy", lambda file: None)
    (tmp_path / "other.h5").write_bytes((copy / "episodes" / f"{SECOND}.h5").read_bytes())
    with h5py.File(copy / "dataset.h5", "r+") as file:
        del file["data/demo_000001"]
        file["data/demo_000001"] = h5py.ExternalLink("../other.h5", "/data/demo_0")
    found = checkup(takeset, "robomimic", copy)
    assert found.breaks == {"episode-unreadable"} and "../other.h5" in found["episode-unreadable"]["message"]


# The command


def test_every_kind_of_file_can_be_examined(takeset, clean, tmp_path):
    directory = clean["robomimic"]
    takeset("pack", directory, "--output", tmp_path / "packed.h5", check=0)
    rows = checkup(takeset, "robomimic", directory).report["rows"]
    for path in directory / "dataset.h5", tmp_path / "packed.h5":
        found = checkup(takeset, "robomimic", path)
        assert (found.report["episodes"], found.report["rows"], found.report["diagnoses"]) == (2, rows, [])
    assert checkup(takeset, "robomimic", directory / "episodes" / f"{FIRST}.h5").report["episodes"] == 1


def test_the_report_does_not_depend_on_threads(takeset, clean, tmp_path):
    copy = edited(clean["robomimic"], tmp_path / "copy", lambda file: (with_nan(file), with_a_jump(file)), shards=BOTH)
    seen = {takeset("verify", "--for", "robomimic", copy, "--json", "--jobs", jobs, check=0).stdout for jobs in (1, 2, 8)}
    assert len(seen) == 1


def test_lines_are_worst_first_with_the_remedy_and_a_summary(takeset, clean, tmp_path):
    copy = edited(clean["robomimic"], tmp_path / "copy", lambda file: (without_actions(file), with_nan(file)))
    lines = takeset("verify", "--for", "robomimic", copy, check=2).stdout.splitlines()
    assert lines[0].startswith(f"breaks: actions-missing: {FIRST} has no actions; ")
    assert lines[1] == "  remedy: convert the takes that have poses, with actions, and leave out the others: `- actions: {kind: relative-6d}`"
    assert lines[2].startswith("trains badly: not-finite: pose is NaN") and lines[3].startswith("  remedy: ")
    assert lines[4] == f"{copy}: 1 problem, 1 warning; 2 episodes, 216 rows" and len(lines) == 5
    quiet = takeset("verify", "--for", "robomimic", copy, "--quiet", check=2).stdout.splitlines()
    assert quiet == [lines[0], lines[1], lines[4]]
    assert takeset("verify", "--for", "robomimic", clean["robomimic"], "--quiet", check=0).stdout == ""


@pytest.mark.parametrize("arguments, words", [
    (["--for", "robomimc"], "robomimic"), (["--for", "robomimic", "--inputs"], "--inputs by itself"),
    (["--for", "aloha", "--file-digests"], "--file-digests by itself"), (["--window", 3], "--window needs --for"),
    (["--obs", "pose"], "--obs needs --for"), (["--for", "aloha", "--window", 0], "--window: expected 1")])
def test_what_cannot_be_combined_is_refused(takeset, clean, arguments, words):
    assert words in takeset("verify", clean["robomimic"], *arguments, check=64).stderr


def test_what_is_no_dataset_is_refused(takeset, tmp_path):
    assert "no such file" in takeset("verify", "--for", "robomimic", tmp_path / "nothing", check=1).stderr
    assert "not a Takeset dataset" in takeset("verify", "--for", "robomimic", tmp_path, check=64).stderr
    (tmp_path / "text.h5").write_text("text")
    assert "cannot be read as an HDF5 file" in takeset("verify", "--for", "robomimic", tmp_path / "text.h5", check=64).stderr
    h5py.File(tmp_path / "other.h5", "w").close()
    assert "has no episodes" in takeset("verify", "--for", "robomimic", tmp_path / "other.h5", check=64).stderr


def test_commands_can_be_pasted_into_a_shell(clean, takeset, tmp_path):
    copy = edited(clean["lerobot"], tmp_path / "it's a copy", without_pose)
    command = checkup(takeset, "lerobot", copy)["key-missing"]["command"]
    assert shlex.split(command) == ["takeset", "export", str(copy), "--to", "lerobot", "--output", "OUT", "--drop-keys", "pose"]


def with_any_number_of_samples(file):
    file[DEMO].attrs["num_samples"] = 2**63 - 1


def with_enormous_actions(file):
    del file[DEMO]["actions"]
    file[DEMO].create_dataset("actions", shape=(5, 2**31, 2**31, 2**10), dtype="f4", chunks=(1, 1, 1, 16))


def with_times_of_floats(file):
    replaced(file[META], "timestamp_ns", file[META]["timestamp_ns"][:].astype("f8"))


@pytest.mark.parametrize("edit, code", [
    (with_any_number_of_samples, "rows-differ"), (with_enormous_actions, "episode-unreadable"), (with_times_of_floats, "episode-unreadable")])
def test_impossible_numbers_stop_nothing(clean, takeset, tmp_path, edit, code):
    copy = edited(clean["robomimic"], tmp_path / "copy", edit, shards=BOTH)
    done = takeset("verify", "--for", "robomimic", copy, "--json", check=2)
    assert code in {one["code"] for one in json.loads(done.stdout)["diagnoses"]}


def test_every_code_is_explained_once(takeset):
    pages = json.loads(takeset("explain", "--json", check=0).stdout)
    codes = [page["code"] for page in pages]
    assert codes == sorted(set(codes))
    # A finding of takes that is a rule of loaders too.
    (both,) = [page for page in pages if page["code"] == "pose-jump"]
    assert both["outcome"] == "written" and "robomimic" in {one["loader"] for one in both["loaders"]}
    assert json.loads(takeset("explain", "pose-jump", "--json", check=0).stdout) == [both]
    # Lines are sentences, which do not end in the middle of a number or a file's name.
    lines = dict(line.split(maxsplit=1) for line in takeset("explain", check=0).stdout.splitlines())
    assert list(lines) == codes
    for page in pages:
        rest = page["meaning"].removeprefix(lines[page["code"]])
        assert rest == "." or rest.startswith(". "), page["code"]


def test_every_code_that_is_used_is_explained(takeset):
    pages = {page["code"]: page for page in json.loads(takeset("explain", "--json", check=0).stdout) if "loaders" in page}
    used = {code for _, _, code, *_ in EDITS}
    assert used <= set(pages) and len(pages) > 35
    for code, page in pages.items():
        assert page["loaders"] and {one["loader"] for one in page["loaders"]} <= {*LOADERS, "geometry"}, code
        text = takeset("explain", code, check=0).stdout
        assert f"{code} (verify --for)" in text and page["meaning"] in text
        assert all(one["consequence"] in text and one["remedy"] in text for one in page["loaders"])
    # A code that a finding has too shows both pages.
    both = takeset("explain", "pose-jump", check=0).stdout
    assert both.startswith("pose-jump (warning)") and "pose-jump (verify --for)" in both
