"""What other people's libraries make of a description: mlcroissant loads it, rocrate and roc-validator read the crate. Nothing is fetched."""

import hashlib
import json
import logging
import re
import shutil
from pathlib import Path

import pytest
from conversions import with_a_failed_take
from outputs import manifest

pytestmark = pytest.mark.loaders


@pytest.fixture(scope="module")
def described(tmp_path_factory, takeset, tiny_takes):
    """A dataset of four takes and one that failed, described in full."""
    root = tmp_path_factory.mktemp("described")
    with_a_failed_take(takeset, tiny_takes, root)
    takeset("describe", root / "out", "--license", "CC-BY-4.0", "--creator", "A. Researcher", "--url", "https://example.org/a", "--ro-crate", check=0)
    return root / "out"


@pytest.fixture
def offline(monkeypatch):
    import socket

    def refuse(*arguments, **options):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def loaded(directory):
    import mlcroissant

    return mlcroissant.Dataset(directory / "croissant.json")


def records(directory, name):
    def plain(value):
        return value.decode() if isinstance(value, bytes) else value

    return [{key.split("/", 1)[1]: plain(value) for key, value in row.items()} for row in loaded(directory).records(name)]


def test_mlcroissant_validates_it_as_1_1(described, offline, caplog):
    with caplog.at_level(logging.WARNING):
        metadata = loaded(described).metadata
    assert str(metadata.ctx.conforms_to.value) == "http://mlcommons.org/croissant/1.1"
    assert not metadata.ctx.issues.errors
    warnings = {re.search(r'Property "[^"]*[/#](\w+)"', warning).group(1) for warning in metadata.ctx.issues.warnings}
    assert warnings == {"citeAs", "version"}, "what only the publisher knows"
    assert "not standard" not in caplog.text
    assert {file.id for file in metadata.distribution} == {str(p.relative_to(described)) for p in described.rglob("*.h5")} | {"manifest.json"}


def test_mlcroissant_keeps_the_provenance(described, offline):
    text = json.dumps(loaded(described).metadata.to_json())
    assert "prov:wasGeneratedBy" in text and "prov:SoftwareAgent" in text and "prov:wasDerivedFrom" in text


def test_mlcroissant_loads_the_takes_from_the_manifest(described, offline):
    expected = manifest(described)["record"]["takes"]
    fields = ["id", "outcome", "reason", "reader", "variant", "input_sha256"]
    assert records(described, "takes") == [{field: take[field] for field in fields} for take in expected]


def test_mlcroissant_loads_the_episodes_the_arrays_and_the_splits(described, offline):
    record = manifest(described)["record"]
    episodes = {row["id"]: row for row in records(described, "episodes")}
    for part in "train", "valid", "test":
        assert sorted(i for i, row in episodes.items() if row["split"] == part) == record["splits"][part]
    for take in record["takes"]:
        if take["output"]:
            row = episodes[take["id"]]
            assert (row["file"], row["rows"], row["content_sha256"]) == (take["output"]["path"], take["output"]["samples"], take["output"]["content_sha256"])
    assert [row["name"] for row in records(described, "splits")] == ["train", "valid", "test"]
    assert {row["unit"] for row in records(described, "arrays") if row["name"] == "obs/pose"} == {"m"}


def test_mlcroissant_notices_another_manifest(described, offline, tmp_path):
    copy = shutil.copytree(described, tmp_path / "copy")
    with (copy / "manifest.json").open("a") as file:
        file.write(" ")
    with pytest.raises(Exception, match=r"Download\(manifest.json\)") as caught:
        records(copy, "takes")
    assert "hash" in str(caught.value.__cause__).lower()


def test_rocrate_reads_the_crate(described, offline):
    from rocrate.rocrate import ROCrate

    crate = ROCrate(described)
    assert crate.root_dataset["license"].id == "https://spdx.org/licenses/CC-BY-4.0.html"
    action = crate.get("#conversion")
    assert action["instrument"]["name"] == "takeset" and action["agent"]["name"] == "A. Researcher"
    for entity in action["result"]:
        assert hashlib.sha256((described / entity.id).read_bytes()).hexdigest() == entity["sha256"]


def test_roc_validator_accepts_the_process_run_crate(described, offline, monkeypatch):
    """The validator would fetch RO-Crate's context; rocrate carries one, of a later version with the same terms."""
    import rocrate
    from rdflib.plugins.shared.jsonld import context
    from rocrate_validator import models, services
    from rocrate_validator.utils.http import HttpRequester

    local = json.loads((Path(rocrate.__file__).parent / "data/ro-crate.jsonld").read_text())

    class Response:
        status_code, ok, text, headers = 200, True, json.dumps(local), {"Content-Type": "application/ld+json"}
        json = staticmethod(lambda: local)

    asked = []
    monkeypatch.setattr(context, "source_to_json", lambda source, *a, **k: (asked.append(source), (local, None))[1])
    monkeypatch.setattr(HttpRequester, "get", lambda self, url, **k: (asked.append(url), Response())[1], raising=False)

    def issues(directory):
        settings = services.ValidationSettings(
            rocrate_uri=str(directory), profile_identifier="process-run-crate", requirement_severity=models.Severity.RECOMMENDED)
        return services.validate(settings).get_issues()

    found = issues(described)
    assert set(asked) == {"https://w3id.org/ro/crate/1.1/context"}
    assert not [issue.message for issue in found if issue.severity == models.Severity.REQUIRED]
    # What only the publisher knows, and that Takeset has no web page and names itself by a package URL.
    known = "publisher|affiliation|Application SHOULD have a url|SoftwareApplication id SHOULD"
    assert not [issue.message for issue in found if not re.search(known, str(issue.message))]
    text = (described / "ro-crate-metadata.json").read_text()
    try:
        (described / "ro-crate-metadata.json").write_text(text.replace('"instrument"', '"object"'))
        assert [issue for issue in issues(described) if issue.severity == models.Severity.REQUIRED]
    finally:
        (described / "ro-crate-metadata.json").write_text(text)
