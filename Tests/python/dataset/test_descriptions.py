"""`describe`: Croissant metadata, the dataset card and RO-Crate metadata say what the dataset is, and leave other people's files alone."""

import hashlib
import json
import re
import shutil

import h5py
import pytest
import yaml
from conversions import with_a_failed_take
from outputs import manifest, sha256

GIVEN = ["--name", "Pouring *water*", "--license", "CC-BY-4.0", "--creator", "A. Researcher", "--url", "https://example.org/pouring"]
NAMES = ["croissant.json", "ro-crate-metadata.json", "README.md"]


@pytest.fixture(scope="module")
def original(tmp_path_factory, takeset, tiny_takes):
    """A described dataset of four takes and one that failed."""
    root = tmp_path_factory.mktemp("described")
    with_a_failed_take(takeset, tiny_takes, root)
    takeset("describe", root / "out", *GIVEN, "--ro-crate", check=0)
    return root / "out"


@pytest.fixture
def described(original, tmp_path):
    return shutil.copytree(original, tmp_path / "out")


def croissant(directory):
    return json.loads((directory / "croissant.json").read_text())


def card(directory):
    """The front matter and the text."""
    _, front, text = (directory / "README.md").read_text().split("---\n", 2)
    return yaml.safe_load(front), text


def contents(directory):
    return {name: (directory / name).read_bytes() for name in NAMES if (directory / name).exists()}


def test_croissant_gives_every_file_with_its_digest(original):
    metadata = croissant(original)
    assert metadata["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    assert metadata["license"] == "https://spdx.org/licenses/CC-BY-4.0.html" and metadata["url"] == "https://example.org/pouring"
    assert metadata["creator"] == [{"@type": "sc:Person", "name": "A. Researcher"}]
    files = {entry["contentUrl"]: entry for entry in metadata["distribution"]}
    expected = [*original.rglob("*.h5"), original / "manifest.json"]
    assert files.keys() == {str(path.relative_to(original)) for path in expected} and len(expected) == 6
    for path in expected:
        entry = files[str(path.relative_to(original))]
        assert entry["sha256"] == sha256(path) and entry["contentSize"] == f"{path.stat().st_size} B"


def test_croissant_gives_the_arrays_with_the_units_in_the_files(original):
    (arrays,) = [s for s in croissant(original)["recordSet"] if s["@id"] == "arrays"]
    expected = {}
    for path in original.glob("episodes/*.h5"):
        with h5py.File(path) as file:

            def visit(name, item):
                if isinstance(item, h5py.Dataset):
                    found = expected.setdefault(name, (set(), set(), []))
                    found[0].add("x".join(map(str, item.shape[1:])) or "scalar")
                    found[1].add(item.attrs["unit"])
                    found[2].append(path)

            file["data/demo_0"].visititems(visit)
    found = {row["arrays/name"]: (row["arrays/shape"], row["arrays/unit"], row["arrays/episodes"]) for row in arrays["data"]}
    assert found == {n: (", ".join(sorted(shapes)), ", ".join(sorted(units)), len(paths)) for n, (shapes, units, paths) in expected.items()}
    assert found["obs/camera_depth"][1] == "m" and found["obs/joints"][1] == "degree"


def test_croissant_says_in_prov_what_the_dataset_was_made_from(original):
    record = manifest(original)["record"]
    activity = croissant(original)["prov:wasGeneratedBy"]
    assert activity["@type"] == "prov:Activity"
    assert activity["prov:startedAtTime"] == manifest(original)["run"]["started"]
    used = {entry["@id"]: entry["sha256"] for entry in activity["prov:used"]}
    assert used == {f"#take/{take['id']}": take["input_sha256"] for take in record["takes"]}
    plan = activity["prov:qualifiedAssociation"]["prov:hadPlan"]
    assert json.loads(plan["prov:value"]) == record["pipeline"] and plan["sha256"] == hashlib.sha256(plan["prov:value"].encode()).hexdigest()
    derived = {e["contentUrl"]: e["prov:wasDerivedFrom"]["@id"] for e in croissant(original)["distribution"] if "prov:wasDerivedFrom" in e}
    assert derived == {take["output"]["path"]: f"#take/{take['id']}" for take in record["takes"] if take["output"]}


def test_the_card_has_the_numbers_of_the_manifest(original):
    front, text = card(original)
    assert front == {
        "pretty_name": "Pouring *water*", "license": "cc-by-4.0", "task_categories": ["robotics"], "tags": ["takeset", "hdf5"],
        "size_categories": ["n<1K"],
    }
    record = manifest(original)["record"]
    written = [take for take in record["takes"] if take["output"]]
    rows = {take["id"]: take["output"]["samples"] for take in written}
    assert text.startswith("\n# Pouring \\*water\\*\n")
    for line in f"| episodes | {len(written)} |", f"| rows | {sum(rows.values())} |", f"| takes read | {len(record['takes'])} |":
        assert line in text.splitlines()
    for part in "train", "valid", "test":
        ids = record["splits"][part]
        assert f"| {part} | {len(ids)} | {sum(rows[i] for i in ids)} |" in text.splitlines()
    assert json.loads(re.search(r"```json\n(.*?)```", text, re.S).group(1)) == record["pipeline"]
    codes = {finding["code"] for take in record["takes"] for finding in take["findings"]} | {f["code"] for f in record["findings"]}
    assert codes and all(f"`{code}`" in text for code in codes)
    assert record["tool"]["version"] in text and manifest(original)["record_sha256"] in text
    assert "| `obs/pose` | f4 | 7 | m | 3 |" in text.splitlines()


def test_the_snippet_of_the_card_runs(original, monkeypatch, capsys):
    monkeypatch.chdir(original)
    exec(re.search(r"```python\n(.*?)```", card(original)[1], re.S).group(1), {})
    assert len(capsys.readouterr().out.splitlines()) == len(manifest(original)["record"]["splits"]["train"])


def test_the_crate_names_the_action_its_inputs_and_results(original):
    graph = {entity["@id"]: entity for entity in json.loads((original / "ro-crate-metadata.json").read_text())["@graph"]}
    assert graph["ro-crate-metadata.json"]["about"] == {"@id": "./"}
    assert graph["./"]["conformsTo"] == {"@id": "https://w3id.org/ro/wfrun/process/0.5"}
    action = graph["#conversion"]
    assert graph[action["instrument"]["@id"]]["@type"] == "SoftwareApplication"
    for entry in action["result"]:
        assert graph[entry["@id"]]["sha256"] == sha256(original / entry["@id"])
    takes = {entry["@id"] for entry in action["object"] if entry["@id"].startswith("#take/")}
    assert takes == {f"#take/{take['id']}" for take in manifest(original)["record"]["takes"]}
    references = re.findall(r'\{\s*"@id": "([^"]+)"\s*\}', (original / "ro-crate-metadata.json").read_text())
    assert {r for r in references if not r.startswith("https://w3id.org/ro/crate/")} <= graph.keys()


def test_nothing_of_the_machine_is_in_the_files(original):
    for name, data in contents(original).items():
        assert str(original.parent).encode() not in data, name


def test_the_dataset_still_verifies_and_runs(takeset, described, tiny_takes, original):
    before = contents(described)
    assert "sound" in takeset("verify", described, check=0).stdout
    takeset.convert(tiny_takes, original.parent / "takes", output=described, check=3)
    assert contents(described) == before


def test_the_same_dataset_gives_the_same_bytes(takeset, described):
    before = contents(described)
    takeset("describe", described, *GIVEN, "--jobs", 1, check=0)
    assert contents(described) == before
    assert len(before) == 3, "the crate is kept up to date without asking"
    for name in before:
        (described / name).unlink()
    takeset("describe", described, *GIVEN, check=0)
    assert contents(described).keys() == {"croissant.json", "README.md"}


def test_what_is_not_given_is_left_out_and_asked_for(takeset, described):
    done = takeset("describe", described, check=0)
    assert "--license, --creator, --url" in done.stdout
    front, text = card(described)
    assert front["license"] == "unknown" and front["pretty_name"] == "out" and "To be filled in" in text
    assert croissant(described).keys().isdisjoint({"license", "creator", "url"})


@pytest.mark.parametrize("name", NAMES)
def test_files_of_others_are_replaced_only_on_request(takeset, described, name):
    (described / name).write_text((described / name).read_text().replace("episodes", "recordings", 1))
    before = contents(described)
    done = takeset("describe", described, "--name", "other", check=73)
    assert name in done.stderr and contents(described) == before
    takeset("describe", described, "--name", "other", "--replace", check=0)
    assert croissant(described)["name"] == "other"


def test_a_readme_without_our_mark_is_left_alone(takeset, described, tmp_path):
    for name in NAMES:
        (described / name).unlink()
    (described / "README.md").write_text("mine")
    takeset("describe", described, check=73)
    assert contents(described) == {"README.md": b"mine"}
    takeset("describe", described, "--output", tmp_path / "elsewhere", check=0)
    assert contents(tmp_path / "elsewhere").keys() == {"croissant.json", "README.md"}
    assert contents(described) == {"README.md": b"mine"}


def test_a_link_is_not_followed(takeset, described, tmp_path):
    (tmp_path / "precious").write_text("mine")
    (described / "README.md").unlink()
    (described / "README.md").symlink_to(tmp_path / "precious")
    takeset("describe", described, check=73)
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize(
    "options", [["--license", "my own"], ["--license", ""], ["--url", "example.org"], ["--url", "https://example.org/a><script>"], ["--date", "31.1.2026"], ["--date", "2026-13-01"], ["--name", "a\nb"]]
)
def test_bad_options_are_refused(takeset, described, options):
    before = contents(described)
    assert options[0] in takeset("describe", described, *options, check=64).stderr
    assert contents(described) == before


def test_a_damaged_or_missing_dataset_is_not_described(takeset, described, tmp_path):
    before = contents(described)
    (described / "episodes/v1.h5").unlink()
    assert "takeset verify" in takeset("describe", described, check=65).stderr
    assert contents(described) == before
    takeset("describe", tmp_path / "absent", check=1)
    takeset("describe", described / "episodes", check=64)


@pytest.mark.parametrize("name", ["del\x7f", "c1\x85\x9b", "a\n---\nlicense: mit\n---\n", "line\u2028end", "mark\ufeff", "&lt; ~~x~~ <b>"])
def test_a_folder_of_any_name_gives_a_card_that_parses(takeset, described, name):
    folder = described.rename(described.parent / name)
    takeset("describe", folder, check=0)
    front, text = card(folder)
    assert (front["pretty_name"], front["license"]) == (name, "unknown")
    (heading,) = re.findall(r"(?m)^# (.*)$", text)
    assert not re.search(r"(?<!\\)[<&~]", heading)


def test_names_that_need_quoting_stay_valid(takeset, tiny_takes, tmp_path):
    shutil.copytree(tiny_takes / "v2", tmp_path / "takes/a b \"c\" #1 é")
    takeset.convert(tmp_path / "takes", output=tmp_path / "out")
    takeset("describe", tmp_path / "out", "--name", 'a: "b" | c', "--ro-crate", check=0)
    assert card(tmp_path / "out")[0]["pretty_name"] == 'a: "b" | c'
    ids = [entry["@id"] for entry in croissant(tmp_path / "out")["distribution"]]
    graph = json.loads((tmp_path / "out/ro-crate-metadata.json").read_text())["@graph"]
    assert not [i for i in ids + [entity["@id"] for entity in graph] if re.search(r"[\s\"<>]", i)]
