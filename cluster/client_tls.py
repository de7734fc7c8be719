"""TLS on our side of a client connection: whom to trust, whom to expect, and what went wrong in words (wire 1)."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levrier.cluster.client_errors import TlsFailed, TlsProblem
from levrier.cluster.refused import ConfigError

_NAME_MISMATCHES: Final = frozenset((62, 64))
"""OpenSSL's codes for a certificate of another host name or of another address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTls:
    """How a node is known. `authority` is a PEM file with the certificates that are trusted, None for those of the system.

    `server_name` is the name that the node's certificate has to be for; None for the host that is connected to.
    """

    authority: Path | None = None
    server_name: str | None = None

    def context(self) -> ssl.SSLContext:
        """What a connection is made with. Raises `ConfigError` for a file that does not do."""
        try:
            context = ssl.create_default_context(cafile=self.authority)
        except OSError as error:  # An SSLError is one; its text helps nobody.
            unfit = isinstance(error, ssl.SSLError)
            reason = "no certificates in PEM form" if unfit else error.strerror
            raise ConfigError(f"TLS authority {self.authority}: {reason}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def failure(self, error: OSError, *, host: str, address: str) -> TlsFailed | None:
        """What a failed connection came to; None when it failed before TLS did."""
        if isinstance(error, ssl.SSLCertVerificationError):
            if error.verify_code in _NAME_MISMATCHES:
                text = f"its certificate is for another name than {self.server_name or host}"
                return TlsFailed(text, address=address, problem=TlsProblem.NAME)
            trusted = self.authority or "the authorities of this system"
            text = f"its certificate is not trusted by {trusted}: {error.verify_message}"
            return TlsFailed(text, address=address, problem=TlsProblem.TRUST)
        if isinstance(error, ssl.SSLError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
            text = "it hung up before TLS was agreed on"
            return TlsFailed(text, address=address, problem=TlsProblem.NOT_SPOKEN)
        return None
