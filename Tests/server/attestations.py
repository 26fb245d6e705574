"""Makes App Attest attestations as phones send them, and the authorities behind them. Each argument that has a default can be wrong."""

import base64
import datetime
import hashlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID, ObjectIdentifier

APP = "ABCDE12345.com.example.capture"
PRODUCTION = b"appattest" + bytes(7)
DEVELOPMENT = b"appattestdevelop"
NONCE = ObjectIdentifier("1.2.840.113635.100.8.2")
DAY = datetime.timedelta(days=1)


def sha256(data):
    return hashlib.sha256(data).digest()


def b64(data):
    return base64.b64encode(data).decode()


def key_named(name, curve=ec.SECP256R1()):
    """The same key for the same name."""
    return ec.derive_private_key(int.from_bytes(sha256(name.encode())) >> 1, curve)


def point(key):
    return key.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)


def der(certificate):
    return certificate.public_bytes(serialization.Encoding.DER)


def cbor(value):
    """Deterministic CBOR (RFC 8949, section 4.2), but for the order of keys."""

    def head(kind, number):
        for length, code in ((0, None), (1, 24), (2, 25), (4, 26), (8, 27)):
            if length == 0 and number < 24:
                return bytes([kind << 5 | number])
            if length and number < 1 << 8 * length:
                return bytes([kind << 5 | code]) + number.to_bytes(length)
        raise ValueError(number)

    match value:
        case int():
            return head(0, value) if value >= 0 else head(1, -1 - value)
        case bytes():
            return head(2, len(value)) + value
        case str():
            return head(3, len(value.encode())) + value.encode()
        case list():
            return head(4, len(value)) + b"".join(map(cbor, value))
        case dict():
            return head(5, len(value)) + b"".join(cbor(key) + cbor(member) for key, member in value.items())
    raise TypeError(value)


def name(text):
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, text),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"),
            x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "California"),
        ]
    )


def usage(**allowed):
    every = ("digital_signature content_commitment key_encipherment data_encipherment key_agreement key_cert_sign crl_sign "
             "encipher_only decipher_only").split()
    return x509.KeyUsage(**{entry: allowed.get(entry, False) for entry in every})


def certificate(subject, key, issuer, issuer_key, extensions, since=-DAY, until=3 * DAY, now=None):
    """`since` and `until` count from `now`; `extensions` are (extension, is critical)."""
    now = now or datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(int.from_bytes(sha256(f"{subject}{issuer}".encode())[:8]) | 1)
        .not_valid_before(now + since)
        .not_valid_after(now + until)
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, is_critical)
    return builder.sign(issuer_key, hashes.SHA384() if issuer_key.curve.key_size == 384 else hashes.SHA256())


class Authority:
    """A root and the intermediate that issues leaves."""

    def __init__(self, seed="real", root_name="Example App Attestation Root CA", intermediate_name="Example App Attestation CA 1",
                 intermediate_since=-2000 * DAY, intermediate_until=3000 * DAY, root_until=5000 * DAY, root_is_authority=True, is_authority=True, signs_certificates=True, now=None):
        self.root_key = key_named(f"root of {seed}", ec.SECP384R1())
        self.key = key_named(f"intermediate of {seed}", ec.SECP384R1())
        self.root_name, self.name = root_name, intermediate_name
        signing = usage(key_cert_sign=True, crl_sign=True)
        self.root = certificate(
            root_name, self.root_key, root_name, self.root_key,
            [(x509.BasicConstraints(root_is_authority, None), True), (signing, True),
             (x509.SubjectKeyIdentifier.from_public_key(self.root_key.public_key()), False)],
            since=-3000 * DAY, until=root_until, now=now)
        self.intermediate = certificate(
            intermediate_name, self.key, root_name, self.root_key,
            [(x509.BasicConstraints(is_authority, 0 if is_authority else None), True),
             (signing if signs_certificates else usage(digital_signature=True), True),
             (x509.AuthorityKeyIdentifier.from_issuer_public_key(self.root_key.public_key()), False)],
            since=intermediate_since, until=intermediate_until, now=now)

    def pem(self):
        return self.root.public_bytes(serialization.Encoding.PEM).decode()

    def leaf(self, key, nonce, *, issuer=None, issuer_key=None, is_authority=False, signs=True, more=(), **dates):
        extensions = [
            (x509.BasicConstraints(is_authority, None), True),
            (usage(digital_signature=signs, key_agreement=not signs), True),
            (x509.UnrecognizedExtension(ObjectIdentifier("1.2.840.113635.100.8.5"), bytes.fromhex("3003a40102")), False),
        ]
        if nonce is not None:
            extensions.append((x509.UnrecognizedExtension(NONCE, nonce), False))
        extensions += more
        return certificate(sha256(point(key) if key.curve.key_size == 256 else b"").hex(), key, issuer or self.name,
                           issuer_key or self.key, extensions, **dates)


def nonce_extension(nonce, tail=b""):
    """DER of SEQUENCE { [1] { OCTET STRING } }."""
    inner = b"\xa1" + bytes([len(nonce) + 2]) + b"\x04" + bytes([len(nonce)]) + nonce + tail
    return b"\x30" + bytes([len(inner)]) + inner


class Attested:
    """A key that a phone made, attested for a challenge."""

    def __init__(self, authority, challenge, *, key=None, app=APP, environment=PRODUCTION, counter=0, flags=0x40, credential=None,
                 cose=None, cose_changes=None, data_tail=b"", data=None, nonce=None, extension=None, leaf=None, chain=None, key_id=None, form="apple-appattest",
                 receipt=b"receipt", tail=b""):
        """`challenge` is bytes. `cose`: another key in the data; `leaf`: changes of the leaf certificate; `chain(leaf, authority)`: x5c;
        `extension(nonce)`: DER of the nonce extension, or None for no such extension."""
        self.key = key or key_named("phone")
        self.point = point(self.key)
        self.challenge = challenge
        self.id = sha256(self.point)
        shown = point(cose) if cose else self.point
        if self.key.curve.key_size == 256:
            public = {1: 2, 3: -7, -1: 1, -2: shown[1:33], -3: shown[33:]} | (cose_changes or {})
        else:
            public = {1: 2, 3: -7, -1: 1, -2: shown[1:33], -3: shown[33:65]}
        credential = self.id if credential is None else credential
        self.data = (
            sha256(app.encode()) + bytes([flags]) + counter.to_bytes(4) + environment + len(credential).to_bytes(2) + credential
            + cbor(public) + data_tail
        )
        if data is not None:
            self.data = data(self.data)
        nonce = sha256(self.data + sha256(challenge)) if nonce is None else nonce
        self.leaf = authority.leaf(self.key, (extension or nonce_extension)(nonce), **(leaf or {}))
        self.chain = [der(self.leaf), der(authority.intermediate)] if chain is None else chain(self.leaf, authority)
        statement = {"x5c": self.chain} | ({"receipt": receipt} if receipt is not None else {})
        self.object = cbor({"fmt": form, "attStmt": statement, "authData": self.data}) + tail
        self.key_id = b64(self.id) if key_id is None else key_id

    def body(self, **changes):
        """The JSON of a registration."""
        attestation = {"key_id": self.key_id, "attestation_object": b64(self.object), "challenge": b64(self.challenge)}
        return {"platform": "ios", "model": "iPhone16,1", "has_lidar": True, "attestation": attestation} | changes

    def flat(self, **changes):
        """The earlier form of it."""
        return {"device_id": self.key_id, "attestation_object": b64(self.object), "challenge": b64(self.challenge)} | changes
