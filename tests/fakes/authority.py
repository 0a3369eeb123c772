"""Certificates for receivers: an authority of our own, and what it, or nobody, has signed."""

import datetime
import ssl
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
EXPIRED = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
FAR = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)
FARTHER = datetime.datetime(2101, 1, 1, tzinfo=datetime.UTC)
LOOPBACK = "127.0.0.1"


class Authority:
    """Signs certificates, into a folder; whoever trusts `file` trusts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("an authority of tests")
        self.file = folder / "authority.pem"
        builder = _builder(self._name, self._name, self._key.public_key(), LONG_AGO, FARTHER)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def context(
        self,
        name: str = LOOPBACK,
        *,
        start: datetime.datetime = LONG_AGO,
        end: datetime.datetime = FAR,
        signed: bool = True,
    ) -> ssl.SSLContext:
        """A server's side of TLS, with a certificate for this name or address and this time."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named("a receiver")
        builder = _builder(subject, self._name if signed else subject, key.public_key(), start, end)
        builder = builder.add_extension(x509.SubjectAlternativeName([_general(name)]), critical=False)
        certificate = builder.sign(self._key if signed else key, hashes.SHA256())
        pem = self._folder / f"{certificate.serial_number:x}.pem"
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        pem.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        return context


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public: ec.EllipticCurvePublicKey,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )
