"""What the documents say is so."""

import re

from conftest import ROOT

SOURCES = "\n".join(p.read_text() for p in sorted((ROOT / "Sources/Takeset").rglob("*.swift")))


def codes_in_sources():
    """Finding and failure codes: the first text after a severity or in a TakeFailure, and those of FrameJoin's notes."""
    argument = r'((?:[^",()]*\?\s*)?"[a-z0-9-]+"(?:\s*:\s*"[a-z0-9-]+")?)'
    found = re.findall(r"(?:TakeFailure\(\s*|\.(?:info|warning|error),\s*)" + argument, SOURCES)
    found += re.findall(r'note\(\s*("[a-z-]+")', SOURCES)
    return {code for text in found for code in re.findall(r'"([a-z0-9-]+)"', text)}


def test_every_finding_is_documented_and_every_documented_one_exists():
    document = (ROOT / "docs/findings.md").read_text()
    documented = set(re.findall(r"^\| `([a-z0-9-]+)` \|", document, re.M)) - {"needs-slam"}
    assert codes_in_sources() == documented
    assert 'Rejection("needs-slam")' in SOURCES
    assert len(documented) > 35


def test_links_between_documents_lead_somewhere():
    documents = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), ROOT / "Benchmarks/README.md", ROOT / "Sources/README.md"]
    for document in documents:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text()):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_architecture_page_names_what_is_there():
    page = (ROOT / "Sources/README.md").read_text()
    for folder in [p for p in (ROOT / "Sources").iterdir() if p.is_dir()]:
        assert f"`{folder.name}`" in page
    for folder in [p for p in (ROOT / "Sources/Takeset").iterdir() if p.is_dir()]:
        assert f"`{folder.name}/`" in page
    for name in set(re.findall(r"`([A-Z][A-Za-z]+)`", page)) - {"NaN"}:
        if not (ROOT / "Sources" / name).exists():
            assert re.search(rf"\b(struct|class|enum|protocol|typealias) {name}\b", SOURCES), name


def test_every_package_in_the_documents_command_is_installed_by_make():
    script = (ROOT / "scripts/install-packages").read_text()
    for target in re.findall(r'system\("\w+", "[^"]+", "([^"]+)"\)', (ROOT / "Package.swift").read_text()):
        assert target in script
