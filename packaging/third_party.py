"""The software of others that a package carries: names, versions, licenses and their texts."""

import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Component:
    name: str
    version: str
    license: str
    """An SPDX expression."""
    text: str
    file: str
    """Names of the libraries it is in, or of the command that it is linked into."""
    note: str = ""


# Debian's packages that may be carried. A library of any other package stops the build: somebody has to read its license first.
LIBRARIES = {
    "libaec0": ("libaec", "BSD-2-Clause"),
    "libbz2-1.0": ("bzip2", "bzip2-1.0.6"),
    "libdeflate0": ("libdeflate", "MIT"),
    "liblz4-1": ("LZ4 (liblz4)", "BSD-2-Clause"),
    "libpng16-16": ("libpng", "libpng-2.0"),
    "libssl3": ("OpenSSL (libcrypto)", "Apache-2.0"),
    "libsqlite3-0": ("SQLite", "blessing"),
    "libsz2": ("libaec (libsz)", "BSD-2-Clause"),
    "libturbojpeg0": ("libjpeg-turbo", "IJG AND BSD-3-Clause AND Zlib"),
    "libzip4": ("libzip", "BSD-3-Clause"),
    "libzstd1": ("Zstandard (libzstd)", "BSD-3-Clause"),
    "zlib1g": ("zlib", "Zlib"),
}


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def debian_package(file: Path) -> tuple[str, str]:
    """Name and version of the installed package that a library is from. Raises LookupError if it is from none."""
    # A library may be known to dpkg by its path in /lib or by the one in /usr/lib, which are the same folder.
    for path in file, file.resolve(), Path(str(file.resolve()).removeprefix("/usr")):
        done = subprocess.run(["dpkg-query", "-S", str(path)], capture_output=True, text=True)
        if done.returncode == 0:
            name = done.stdout.split(":")[0]
            return name, _run("dpkg-query", "-W", "-f=${Version}", f"{name}:amd64")
    raise LookupError(f"{file} is not from a Debian package, so its license is not known")


def library(file: Path) -> Component:
    """One of Debian's libraries. Raises LookupError if its license is not among those above."""
    package, version = debian_package(file)
    if package not in LIBRARIES:
        raise LookupError(f"{file} is from {package}, whose license nobody has read; add it to packaging/third_party.py")
    name, license = LIBRARIES[package]
    text = Path(f"/usr/share/doc/{package}/copyright").read_text()
    return Component(name, version, license, text, file.name, f"Debian's {package}")


def linked(binary: Path, checkouts: Path) -> list[Component]:
    """What is linked into the command: the Swift runtime and two packages."""
    swift = Path(_run("bash", "-c", "readlink -f $(command -v swift)")).parent.parent
    version = re.search(r"Swift version (\S+)", _run("swift", "--version"))
    icu = re.search(rb"icudt(\d+)", binary.read_bytes())
    if not version or not icu:
        raise LookupError(f"the versions of Swift and ICU in {binary} are not to be found")
    exception = (swift / "share/swift/LICENSE.txt").read_text()

    def resolved(name: str) -> str:
        return _run("git", "-C", str(checkouts / name), "describe", "--tags", "--always")

    runtime = "standard library, concurrency, string processing, Dispatch, Foundation"
    return [
        Component("Swift", version[1], "Apache-2.0 WITH Swift-exception", exception, "takeset", runtime),
        Component("ICU", icu[1].decode(), "Unicode-3.0", (HERE / "licenses/icu.txt").read_text(), "takeset", "part of Swift's Foundation"),
        Component(
            "swift-argument-parser", resolved("swift-argument-parser"), "Apache-2.0 WITH Swift-exception",
            (checkouts / "swift-argument-parser/LICENSE.txt").read_text(), "takeset"),
        Component("Yams", resolved("Yams"), "MIT", (checkouts / "Yams/LICENSE").read_text(), "takeset"),
        Component("libyaml", "(in Yams)", "MIT", (HERE / "licenses/libyaml.txt").read_text(), "takeset", "part of Yams"),
    ]


# Swift packages that the server is built from. Any other stops the build: somebody has to read its license first.
SWIFT = "Apache-2.0 WITH Swift-exception"
SERVER = {
    "GRDB.swift": "MIT",
    "Yams": "MIT",
    "async-http-client": "Apache-2.0",
    "hummingbird": "Apache-2.0",
    "swift-algorithms": SWIFT,
    "swift-argument-parser": SWIFT,
    "swift-asn1": "Apache-2.0",
    "swift-async-algorithms": SWIFT,
    "swift-atomics": SWIFT,
    "swift-certificates": "Apache-2.0",
    "swift-collections": SWIFT,
    "swift-configuration": "Apache-2.0",
    "swift-crypto": "Apache-2.0",
    "swift-distributed-tracing": "Apache-2.0",
    "swift-http-structured-headers": "Apache-2.0",
    "swift-http-types": "Apache-2.0",
    "swift-log": "Apache-2.0",
    "swift-metrics": "Apache-2.0",
    "swift-mustache": "Apache-2.0",
    "swift-nio": "Apache-2.0",
    "swift-nio-extras": "Apache-2.0",
    "swift-nio-http2": "Apache-2.0",
    "swift-nio-ssl": "Apache-2.0",
    "swift-nio-transport-services": "Apache-2.0",
    "swift-numerics": SWIFT,
    "swift-service-context": "Apache-2.0",
    "swift-service-lifecycle": "Apache-2.0",
    "swift-system": SWIFT,
}


def linked_into_server(binary: Path, checkouts: Path) -> list[Component]:
    """What is linked into the server, or was there to be. Raises LookupError for a package that is not in the list above."""
    known = {"swift-argument-parser", "Yams"}
    components = [replace(component, file="takeset-server") for component in linked(binary, checkouts)]
    for folder in sorted(checkouts.iterdir()):
        name = folder.name
        if name in known:
            continue
        if name not in SERVER:
            raise LookupError(f"{name} is a package whose license nobody has read; add it to packaging/third_party.py")
        version = _run("git", "-C", str(folder), "describe", "--tags", "--always")
        texts = [file.read_text() for pattern in ("LICENSE*", "NOTICE*") for file in sorted(folder.glob(pattern))]
        components.append(Component(name, version, SERVER[name], "\n\n".join(texts), "takeset-server"))
    nio, boring = checkouts / "swift-nio/Sources", "in swift-crypto and swift-nio-ssl"
    sha1 = (nio / "CNIOSHA1/c_nio_sha1.c").read_text()
    apache = (checkouts / "swift-nio/LICENSE.txt").read_text()
    return [
        *components,
        Component("BoringSSL", f"({boring})", "Apache-2.0", f"Copyright The BoringSSL and OpenSSL Authors\n\n{apache}", "takeset-server"),
        Component("llhttp", "(in swift-nio)", "MIT", (nio / "CNIOLLHTTP/LICENSE").read_text(), "takeset-server"),
        Component("SHA-1 of the WIDE project", "(in swift-nio)", "BSD-3-Clause", sha1[sha1.index("/*-") : sha1.index("*/", sha1.index("/*-"))],
                  "takeset-server"),
    ]


def built(libraries: Path) -> list[Component]:
    """FFmpeg and HDF5, as build-libraries has made them."""
    stamp = (libraries / "stamp").read_text()
    versions = dict(re.findall(r"(ffmpeg|hdf5) ([^,]+),", stamp))
    options = (libraries / "licenses/ffmpeg.configure").read_text().split()
    files = ", ".join(f.name for f in sorted((libraries / "lib").glob("lib[as][vw]*")))
    ffmpeg = (
        "A library of the LGPL. You may replace these files by your own builds of FFmpeg with the same major versions. The source is Debian's\n"
        f"source package ffmpeg {versions['ffmpeg']}, unchanged and published beside this package; it was configured with\n  " + "\n  ".join(options))
    return [
        Component("FFmpeg", versions["ffmpeg"], "LGPL-2.1-or-later", (libraries / "licenses/ffmpeg").read_text(), files, ffmpeg),
        Component(
            "HDF5", versions["hdf5"], "BSD-3-Clause", (libraries / "licenses/hdf5").read_text(), "libhdf5_serial.so.103",
            "built from Debian's source package hdf5, without its HTTP driver"),
    ]


def document(components: list[Component]) -> str:
    """The text that goes into a package."""
    out = ["Takeset is under the Apache License 2.0. It carries software of others:", ""]
    width = max(len(f"{c.name} {c.version}") for c in components)
    out += [f"  {f'{c.name} {c.version}':{width}}  {c.license}" for c in components]
    for component in components:
        out += ["", "=" * 80, f"{component.name} {component.version}", f"License: {component.license}", f"Files: {component.file}"]
        if component.note:
            out += [component.note]
        out += ["-" * 80, component.text.strip()]
    return "\n".join(out) + "\n"


def expression(components: list[Component]) -> str:
    """The SPDX expression of a package with these components."""
    parts = {part for c in components for part in c.license.split(" AND ")}
    return " AND ".join(["Apache-2.0", *sorted(parts - {"Apache-2.0"})])
