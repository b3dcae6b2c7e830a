"""Keys and certificates of peers: each makes its own, and gives the certificate to the others."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path

from consensus import _checks
from consensus._extras import module

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_DAYS = 3650


def checked_name(argument: str, name: object) -> str:
    """Return the name of a peer; ``ValueError`` if it is none."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(
            f"{argument} must be a name of at most 63 letters, digits and inner hyphens, such as 'oslo'; "
            f"got {_checks.shown(name)}"
        )
    return name


def keys(name: str, folder: str | os.PathLike[str] = ".") -> tuple[Path, Path]:
    """Make a private key and a certificate, by which the other peers know one from now on.

    The key, ``NAME.key``, stays where it is: nobody else may read it. The certificate, ``NAME.pem``, goes to the other peers,
    by a way on which nobody can replace it: who has another one in its place lets in whoever made that.

    Parameters
    ----------
    name : str
        Name of the peer, as the file of the run has it.
    folder : path
        Where the two files are made.

    Returns
    -------
    tuple of Path and Path
        The files of the key and of the certificate.

    Raises
    ------
    ValueError
        If the name is none.
    FileExistsError
        If one of the files is there: a new key would shut this peer out of the runs that know the old one.
    ImportError
        If cryptography is missing.

    Examples
    --------
    >>> import tempfile
    >>> from consensus.peers import keys
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     key, certificate = keys("oslo", folder)
    ...     key.name, certificate.read_text().splitlines()[0]
    ('oslo.key', '-----BEGIN CERTIFICATE-----')
    """
    checked_name("name", name)
    module("cryptography", "a key of a peer", "peers")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    where = _checks.path("folder", folder)
    places = where / f"{name}.key", where / f"{name}.pem"
    for place in places:
        if place.exists():
            raise FileExistsError(f"{place} is there already, and others may know it: move it away before you make a new one")
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with open(os.open(places[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secret)
    places[1].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return places


def fingerprint(certificate: bytes) -> bytes:
    """Return the SHA-256 of a certificate in PEM; ``ValueError`` if it is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    return x509.load_pem_x509_certificate(certificate).fingerprint(hashes.SHA256())


def said_name(certificate: bytes) -> str:
    """Return the name that a certificate in PEM states."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(certificate).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found[0].value) if found else "nobody"


def days_left(certificate: bytes) -> float:
    """Return for how many days a certificate in PEM is valid; negative if it no longer is, or not yet."""
    from cryptography import x509

    found, now = x509.load_pem_x509_certificate(certificate), datetime.datetime.now(datetime.UTC)
    if now < found.not_valid_before_utc:
        return (now - found.not_valid_before_utc).total_seconds() / 86400
    return (found.not_valid_after_utc - now).total_seconds() / 86400


def fits(key: bytes, certificate: bytes) -> bool:
    """Return whether a private key in PEM is that of a certificate in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    own = serialization.load_pem_private_key(key, None).public_key()
    return own == x509.load_pem_x509_certificate(certificate).public_key()
