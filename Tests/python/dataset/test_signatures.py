"""`sign` and `verify --public-key`: an in-toto statement with SLSA provenance in a DSSE envelope, checked by libraries and tools that are not Takeset's."""

import base64
import hashlib
import json
import os
import shutil
import subprocess

import pytest
from conversions import with_a_failed_take
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from outputs import manifest, sha256

PEM = serialization.Encoding.PEM
PLAIN = serialization.NoEncryption()
# Encodings of the points of order 1, 2, 4 and 8, also with numbers that are not reduced and with the other sign of x.
SMALL = [
    "01" + "00" * 31, "ec" + "ff" * 30 + "7f", "00" * 32, "00" * 31 + "80", "ed" + "ff" * 30 + "7f", "ed" + "ff" * 31, "ee" + "ff" * 30 + "7f", "01" + "00" * 30 + "80",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]


def openssl(*arguments, check=True):
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=check)


def key_pair(folder, name="key"):
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    openssl("genpkey", "-algorithm", "ed25519", "-out", private)
    openssl("pkey", "-in", private, "-pubout", "-out", public)
    private.chmod(0o600)
    return private, public


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return key_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def original(tmp_path_factory, takeset, tiny_takes, keys):
    """A signed dataset of four takes and one that failed."""
    root = tmp_path_factory.mktemp("signed")
    with_a_failed_take(takeset, tiny_takes, root)
    takeset("sign", root / "out", "--key", keys[0], check=0)
    return root / "out"


@pytest.fixture
def signed(original, tmp_path):
    return shutil.copytree(original, tmp_path / "out")


def envelope(directory):
    return json.loads((directory / "attestation.json").read_text())


def statement(directory):
    return json.loads(base64.b64decode(envelope(directory)["payload"], validate=True))


def message(envelope):
    """What DSSE signs."""
    body, kind = base64.b64decode(envelope["payload"], validate=True), envelope["payloadType"].encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(body), body)


def reseal(directory, key, change):
    """Signs a changed statement as somebody with the key but without Takeset would."""
    content = statement(directory)
    change(content)
    body = json.dumps(content).encode()
    sealed = {"payload": base64.b64encode(body).decode(), "payloadType": "application/vnd.in-toto+json", "signatures": []}
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    sealed["signatures"] = [{"sig": base64.b64encode(private.sign(message(sealed))).decode()}]
    (directory / "attestation.json").write_text(json.dumps(sealed))


# What is signed


def test_cryptography_and_openssl_verify_the_signature(signed, keys, tmp_path):
    sealed = envelope(signed)
    assert sealed["payloadType"] == "application/vnd.in-toto+json" and len(sealed["signatures"]) == 1
    signature = base64.b64decode(sealed["signatures"][0]["sig"], validate=True)
    public = serialization.load_pem_public_key(keys[1].read_bytes())
    public.verify(signature, message(sealed))
    with pytest.raises(InvalidSignature):
        public.verify(signature, message(sealed) + b" ")
    (tmp_path / "message").write_bytes(message(sealed))
    (tmp_path / "signature").write_bytes(signature)
    done = openssl("pkeyutl", "-verify", "-pubin", "-inkey", keys[1], "-rawin", "-in", tmp_path / "message", "-sigfile", tmp_path / "signature")
    assert "Verified Successfully" in done.stdout
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert sealed["signatures"][0]["keyid"] == hashlib.sha256(der).hexdigest()


def test_the_statement_names_the_record_every_file_and_every_take(signed):
    content, record = statement(signed), manifest(signed)["record"]
    assert content["_type"] == "https://in-toto.io/Statement/v1"
    assert content["predicateType"] == "https://slsa.dev/provenance/v1"
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in content["subject"]}
    files = {str(path.relative_to(signed)): sha256(path) for path in signed.rglob("*.h5")}
    assert len(files) == 5
    assert subjects == files | {"manifest.json#/record": manifest(signed)["record_sha256"]}
    definition = content["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"pipeline": record["pipeline"], "pipeline_sha256": record["pipeline_sha256"]}
    dependencies = {entry["name"]: entry for entry in definition["resolvedDependencies"]}
    assert dependencies.keys() == {take["id"] for take in record["takes"]} == {"v1", "v2", "pour", "scan", "bad"}
    for take in record["takes"]:
        lines = sorted(f"{file['sha256']}  {file['path']}\n".encode() for file in take["inputs"])
        assert dependencies[take["id"]]["digest"]["sha256"] == hashlib.sha256(b"".join(lines)).hexdigest()
        assert dependencies[take["id"]]["annotations"]["bytes"] == sum(file["bytes"] for file in take["inputs"])
    builder = content["predicate"]["runDetails"]["builder"]
    assert builder["id"] == f"pkg:generic/takeset@{record['tool']['version']}"
    assert builder["version"]["hdf5"] == record["tool"]["libraries"]["hdf5"] and builder["version"]["revision"] == record["tool"]["revision"]


def test_nothing_of_the_machine_is_signed(signed):
    text = base64.b64decode(envelope(signed)["payload"]).decode()
    assert str(signed.parent) not in text and os.uname().nodename not in text and "command_line" not in text


def test_the_signed_dataset_verifies(takeset, signed, keys):
    done = takeset("verify", signed, "--public-key", keys[1], check=0)
    assert "sound" in done.stdout
    assert json.loads(takeset("verify", signed, "--public-key", keys[1], "--json", check=0).stdout)["sound"] is True
    takeset("verify", signed, check=0)


def test_the_same_dataset_gives_the_same_bytes_on_any_machine(takeset, original, tiny_takes, keys, tmp_path):
    takeset.convert(tiny_takes, original.parent / "takes", output=tmp_path / "again", check=3, arguments=["--jobs", 1])
    takeset("sign", tmp_path / "again", "--key", keys[0], "--jobs", 1, check=0)
    assert (tmp_path / "again/attestation.json").read_bytes() == (original / "attestation.json").read_bytes()


def test_a_merged_dataset_names_its_sources(takeset, tiny_takes, keys, tmp_path):
    for name in "v1", "v2":
        takeset.convert(tiny_takes / name, output=tmp_path / name)
    takeset("merge", tmp_path / "v1", tmp_path / "v2", "--output", tmp_path / "both", check=0)
    takeset("sign", tmp_path / "both", "--key", keys[0], check=0)
    dependencies = statement(tmp_path / "both")["predicate"]["buildDefinition"]["resolvedDependencies"]
    sources = {entry["digest"]["sha256"] for entry in dependencies if entry["name"] == "dataset"}
    assert sources == {manifest(tmp_path / name)["record_sha256"] for name in ("v1", "v2")}
    takeset("verify", tmp_path / "both", "--public-key", keys[1], check=0)


# Tampering


def other_shard(signed):
    """Swaps two shards, each of which is sound by itself."""
    a, b = signed / "episodes/v1.h5", signed / "episodes/v2.h5"
    a.rename(signed / "c")
    b.rename(a)
    (signed / "c").rename(b)


def other_record(signed):
    """A record that was changed together with its digest: sound, as far as digests go."""
    text = (signed / "manifest.json").read_text()
    start, end = text.index('\n"record":\n') + len('\n"record":\n'), text.index(',\n"record_sha256":"')
    body = text[start:end].replace('"train":["', '"train":["x","', 1)
    digest = hashlib.sha256(body.replace("\n", "").encode()).hexdigest()
    rest = text[end:].replace(manifest(signed)["record_sha256"], digest)
    (signed / "manifest.json").write_text(text[:start] + body + rest)
    assert manifest(signed)["record_sha256"] == digest


def flipped(path, offset):
    def change(signed):
        data = bytearray((signed / path).read_bytes())
        data[offset] ^= 1
        (signed / path).write_bytes(data)

    return change


def unsigned(signed):
    (signed / "attestation.json").unlink()


def edited_envelope(edit):
    def change(signed):
        sealed = envelope(signed)
        edit(sealed)
        (signed / "attestation.json").write_text(json.dumps(sealed))

    return change


def rewritten_in(text):
    def change(signed):
        path = signed / "attestation.json"
        path.write_bytes(path.read_text().encode(text))

    return change


def edit_payload(sealed):
    body = base64.b64decode(sealed["payload"])
    sealed["payload"] = base64.b64encode(body.replace(b'"v1"', b'"v9"')).decode()


def edit_signature(sealed):
    raw = bytearray(base64.b64decode(sealed["signatures"][0]["sig"]))
    raw[40] ^= 1
    sealed["signatures"][0]["sig"] = base64.b64encode(raw).decode()


TAMPERED = {
    "shard": (flipped("episodes/v1.h5", -100), "episodes/v1.h5"),
    "index": (flipped("dataset.h5", -1), "dataset.h5"),
    "swapped-shards": (other_shard, "episodes/v1.h5"),
    "missing-shard": (lambda signed: (signed / "episodes/v2.h5").unlink(), "episodes/v2.h5"),
    "record": (other_record, "manifest.json#/record: sha256 is"),
    "record-byte": (flipped("manifest.json", 200), "manifest.json"),
    "no-attestation": (unsigned, "attestation.json: is missing"),
    "payload": (edited_envelope(edit_payload), "attestation.json: has no valid signature"),
    "signature": (edited_envelope(edit_signature), "attestation.json: has no valid signature"),
    "no-signature": (edited_envelope(lambda sealed: sealed["signatures"].clear()), "attestation.json: has no valid signature"),
    "payload-type": (edited_envelope(lambda sealed: sealed.update(payloadType="text/plain")), "attestation.json: has no valid signature"),
    "not-base64": (edited_envelope(lambda sealed: sealed.update(payload="???")), "attestation.json: has no valid signature"),
    "not-an-envelope": (lambda signed: (signed / "attestation.json").write_text("[]"), "attestation.json: is not a DSSE envelope"),
    **{text: (rewritten_in(text), "attestation.json: is not a DSSE envelope") for text in ("utf-16", "utf-16-le", "utf-32")},
    "half": (lambda signed: (signed / "attestation.json").write_bytes((signed / "attestation.json").read_bytes()[:500]), "is not a DSSE envelope"),
    "added-shard": (lambda signed: shutil.copy(signed / "episodes/v1.h5", signed / "episodes/v9.h5"), "episodes/v9.h5: is not in the manifest"),
    "link": (lambda signed: ((signed / "attestation.json").rename(signed / "a"), (signed / "attestation.json").symlink_to("a")), "attestation.json"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_found(takeset, signed, keys, name):
    change, words = TAMPERED[name]
    change(signed)
    done = takeset("verify", signed, "--public-key", keys[1], check=2)
    assert words in done.stdout, done.stdout


def test_the_record_alone_passes_without_the_signature(takeset, signed):
    """What the signature is for: digests that were changed together are sound."""
    unsigned(signed)
    takeset("verify", signed, check=0)


def changed_build(statement, part, value):
    assert part in statement["predicate"]["buildDefinition"]
    statement["predicate"]["buildDefinition"][part] = value


SUBSTITUTED = {
    "subject-missing": (lambda s: s["subject"].pop(), "is not among what is signed"),
    "subject-added": (lambda s: s["subject"].append({"name": "x.h5", "digest": {"sha256": "0" * 64}}), "x.h5: is signed, and is not in the dataset"),
    "subject-twice": (lambda s: s["subject"].append(s["subject"][0]), "twice"),
    "take": (lambda s: s["predicate"]["buildDefinition"]["resolvedDependencies"].pop(), "resolvedDependencies are not those of the record"),
    "pipeline": (lambda s: s["predicate"]["buildDefinition"]["externalParameters"].clear(), "externalParameters are not those of the record"),
    "build-type": (lambda s: changed_build(s, "buildType", "https://example.org/other"), "buildType"),
    "internal": (lambda s: changed_build(s, "internalParameters", {"split": {"rule": "other", "seed": 7}}), "internalParameters"),
    "tool": (lambda s: s["predicate"]["runDetails"]["builder"].update(id="pkg:generic/other@1"), "its builder is not"),
    "type": (lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"), "not an in-toto statement"),
    "predicate": (lambda s: s.update(predicateType="https://slsa.dev/provenance/v0.2"), "not an in-toto statement"),
}


@pytest.mark.parametrize("name", SUBSTITUTED)
def test_a_signed_statement_that_contradicts_the_dataset_is_found(takeset, signed, keys, name):
    change, words = SUBSTITUTED[name]
    reseal(signed, keys[0], lambda content: None)
    takeset("verify", signed, "--public-key", keys[1], check=0)
    reseal(signed, keys[0], change)
    assert words in takeset("verify", signed, "--public-key", keys[1], check=2).stdout


def test_another_key_does_not_verify(takeset, signed, tmp_path):
    done = takeset("verify", signed, "--public-key", key_pair(tmp_path, "other")[1], check=2)
    assert "has no valid signature by the key" in done.stdout


def test_one_of_several_signatures_is_enough(takeset, signed, keys):
    sealed = envelope(signed)
    sealed["signatures"].insert(0, {"keyid": "else", "sig": base64.b64encode(bytes(64)).decode()})
    (signed / "attestation.json").write_text(json.dumps(sealed))
    takeset("verify", signed, "--public-key", keys[1], check=0)


# Keys, and what is there already


def unusable_keys(folder, keys):
    private = Ed25519PrivateKey.generate()
    secret = serialization.BestAvailableEncryption(b"secret")
    curve = ec.generate_private_key(ec.SECP256R1())
    return {
        "public": keys[1].read_bytes(),
        "passphrase": private.private_bytes(PEM, serialization.PrivateFormat.PKCS8, secret),
        "p256": curve.private_bytes(PEM, serialization.PrivateFormat.PKCS8, PLAIN),
        "ssh": private.private_bytes(PEM, serialization.PrivateFormat.OpenSSH, PLAIN),
        "der": private.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, PLAIN),
        "empty": b"",
        "large": b"x" * 100_000,
        "half": keys[0].read_bytes()[:60],
    }


@pytest.mark.parametrize("name", ["public", "passphrase", "p256", "ssh", "der", "empty", "large", "half", "absent", "folder"])
def test_keys_that_cannot_sign_are_refused(takeset, signed, keys, tmp_path, name):
    before = (signed / "attestation.json").read_bytes()
    path = tmp_path / "bad.pem"
    if name == "folder":
        path.mkdir()
    elif name != "absent":
        path.write_bytes(unusable_keys(tmp_path, keys)[name])
    done = takeset("sign", signed, "--key", path, "--replace", check=64, stdin=subprocess.DEVNULL)
    assert str(path) in done.stderr and len(done.stderr.splitlines()) <= 2
    assert (signed / "attestation.json").read_bytes() == before


def public_key(der):
    """A key in SubjectPublicKeyInfo as PEM."""
    return b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(der) + b"-----END PUBLIC KEY-----\n"


@pytest.mark.parametrize("point", SMALL)
def test_a_key_of_small_order_proves_nothing(takeset, signed, tmp_path, point):
    """For such a key R = identity, S = 0 is a signature of many messages, and nobody needs a private key."""
    (tmp_path / "key.pub").write_bytes(public_key(bytes.fromhex("302a300506032b6570032100" + point)))
    edited_envelope(lambda sealed: sealed.update(signatures=[{"sig": base64.b64encode(bytes([1] + [0] * 63)).decode()}]))(signed)
    assert "small order" in takeset("verify", signed, "--public-key", tmp_path / "key.pub", check=64).stderr


def test_keys_that_cannot_verify_are_refused(takeset, signed, keys, tmp_path):
    der = base64.b64decode("".join(keys[1].read_text().splitlines()[1:-1]))
    for behind in b"\0", b"more":
        (tmp_path / "longer").write_bytes(public_key(der + behind))
        takeset("verify", signed, "--public-key", tmp_path / "longer", check=64)
    assert "is a private key" in takeset("verify", signed, "--public-key", keys[0], check=64).stderr
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    (tmp_path / "p256").write_bytes(curve.public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo))
    assert "only Ed25519" in takeset("verify", signed, "--public-key", tmp_path / "p256", check=64).stderr
    takeset("verify", signed, "--public-key", tmp_path / "absent", check=64)
    takeset("verify", signed / "dataset.h5", "--public-key", keys[1], check=64)
    takeset("verify", signed, "--public-key", keys[1], "--for", "robomimic", check=64)


def test_a_key_that_others_can_read_is_a_warning(takeset, signed, keys, tmp_path):
    assert "warning" not in takeset("sign", signed, "--key", keys[0], check=0).stderr
    open_key = shutil.copy(keys[0], tmp_path / "open.pem")
    os.chmod(open_key, 0o644)
    (tmp_path / "link.pem").symlink_to(open_key)
    for path in open_key, tmp_path / "link.pem":
        assert "others can read the private key" in takeset("sign", signed, "--key", path, check=0).stderr


def test_another_attestation_is_replaced_only_on_request(takeset, signed, keys, tmp_path):
    before = (signed / "attestation.json").read_bytes()
    assert "signed already" in takeset("sign", signed, "--key", keys[0], check=0).stdout
    other = key_pair(tmp_path, "other")
    takeset("sign", signed, "--key", other[0], check=73)
    assert (signed / "attestation.json").read_bytes() == before
    takeset("sign", signed, "--key", other[0], "--replace", check=0)
    takeset("verify", signed, "--public-key", other[1], check=0)
    takeset("verify", signed, "--public-key", keys[1], check=2)


def test_a_damaged_dataset_is_not_signed(takeset, signed, keys):
    unsigned(signed)
    flipped("episodes/v1.h5", -100)(signed)
    done = takeset("sign", signed, "--key", keys[0], check=2)
    assert "nothing is signed" in done.stderr and not (signed / "attestation.json").exists()
    flipped("episodes/v1.h5", -100)(signed)
    shutil.copy(signed / "episodes/v1.h5", signed / "episodes/v9.h5")
    assert "episodes/v9.h5" in takeset("sign", signed, "--key", keys[0], check=2).stderr
    takeset("sign", signed / "absent", "--key", keys[0], check=1)
    takeset("sign", signed / "episodes", "--key", keys[0], check=64)
