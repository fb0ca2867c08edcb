"""A certificate authority and one serving certificate for loopback, and a key that signs ServiceAccount tokens.

kube-apiserver could sign its own, but clients that check certificates strictly (Python from 3.13 on) want a proper
chain. The embedded API server of the tests serves with the same files.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = dt.timedelta(days=1)
# A clock that is a little behind must not refuse a certificate of this second.
_SLACK = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of PEM files in one private folder."""

    authority: Path
    server: Path
    server_key: Path
    token_key: Path

    @classmethod
    def create(cls, folder: Path) -> Certificates:
        """Make everything anew; the folder must be private to its owner."""
        authority_key = ec.generate_private_key(ec.SECP256R1())
        authority = _authority(authority_key)
        server_key = ec.generate_private_key(ec.SECP256R1())
        made = cls(folder / "ca.crt", folder / "server.crt", folder / "server.key", folder / "tokens.key")
        made.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        server = _server(authority, authority_key, server_key)
        made.server.write_bytes(server.public_bytes(serialization.Encoding.PEM))
        _write_key(made.server_key, server_key)
        _write_key(made.token_key, ec.generate_private_key(ec.SECP256R1()))
        return made


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "control plane of the tests")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )


def _server(
    authority: x509.Certificate, authority_key: ec.EllipticCurvePrivateKey, key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    names = [
        x509.DNSName("localhost"),
        x509.DNSName("kubernetes.default.svc"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    issuer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), authority.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _LIFE)
    )


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    # kube-apiserver reads the public half of an EC key from this form only.
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)
