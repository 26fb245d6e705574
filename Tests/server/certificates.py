"""Certificates that sign themselves, for servers of tests."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def certificate(folder, since=-1, until=1):
    """Writes cert.pem, for 127.0.0.1 and these days from now on, and key.pem. The paths of both, and the last day."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    days = [datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(number) for number in (since, until)]
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, *days)
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
    made = made.add_extension(x509.BasicConstraints(True, None), True).sign(key, hashes.SHA256())
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(pem(key))
    return folder / "cert.pem", folder / "key.pem", days[1]
