"""Checks the files for TLS that the URL of Redis names; only processes that use Redis need them."""

from __future__ import annotations

from service.config.prefix import PREFIX
from service.config.settings import Settings, SettingsError
from service.config.urls import read_redis_tls_options


def check_redis_files(settings: Settings) -> None:
    """Load the certificates and the key for connections to Redis, if the settings name some.

    Raises:
        SettingsError: one of the files cannot be used.
    """
    if settings.redis_url is None:
        return
    options = read_redis_tls_options(settings.redis_url)
    authorities, certificate, key = (
        options.get(f"ssl_{name}") for name in ("ca_certs", "certfile", "keyfile")
    )
    if authorities is None and certificate is None:
        return
    # Imported here, because few stores have such a Redis.
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    wrong = "a readable file of certificates as ssl_ca_certs"
    try:
        if authorities is not None:
            context.load_verify_locations(authorities)
        wrong = (
            "readable files of a certificate and its unencrypted key"
            " as ssl_certfile and ssl_keyfile"
        )
        if certificate is not None:
            # Without a password, an encrypted key would be asked for on the terminal.
            context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        message = f"invalid settings\n  {PREFIX}REDIS_URL: must have {wrong}"
        raise SettingsError(message) from error
