"""Settings: read from the environment, with all errors reported at once and no secret in any."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from datetime import time
from pathlib import Path

import pytest

from indexing.names import RepositoryName
from service.config.ineffective import find_misspelled, find_without_url
from service.config.prefix import PREFIX
from service.config.redis_files import check_redis_files
from service.config.secret import choose_secret
from service.config.settings import (
    DECLARATIONS,
    LogFormat,
    LogLevel,
    Settings,
    SettingsError,
    load_settings,
)


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for declared in DECLARATIONS:
        monkeypatch.delenv(declared.variable, raising=False)


def test_every_setting_is_declared_once_with_a_description() -> None:
    assert [declared.field for declared in DECLARATIONS] == [each.name for each in fields(Settings)]
    assert all(declared.description.endswith(".") for declared in DECLARATIONS)


def test_the_documented_defaults_are_those_that_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings() == Settings()
    for declared in DECLARATIONS:
        if declared.default != "unset":
            monkeypatch.setenv(declared.variable, declared.default)
    assert load_settings() == Settings()


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA_DIR", "PUBLIC_URL", "BIND", "SECRET", "URL", "TOKEN", "INGEST", "REDIS_URL"):
        monkeypatch.setenv(PREFIX + name, "")
    assert load_settings() == Settings()


def test_all_settings_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "DATA_DIR": "/srv/data",
        "ELASTICSEARCH_URL": "https://one.example:9200/, http://two.example:9200",
        "ELASTICSEARCH_API_KEY": "a2V5\n",
        "ELASTICSEARCH_PREFIX": "staging-1",
        "PUBLIC_URL": "https://ci.example/merge/",
        "BIND": "::",
        "PORT": "0",
        "WORKERS": "4",
        "SECRET": "anything at all",
        "LOG_LEVEL": "DEBUG",
        "LOG_FORMAT": "text",
        "RETENTION_DAYS": "7",
        "ROLLUP_DAYS": "400",
        "PRUNE_AT": "03:17",
        "URL": "https://ci.example/merge/",
        "TOKEN": "mw_anything\n",
        "INGEST": "true",
        "HOST_API_URL": "https://host.example/api/v3/",
        "RATE_LIMIT": "600/minute",
        "METRICS": "true",
        "METRICS_REPOSITORIES": "acme/widgets, Acme/Widgets, acme/gadgets",
        "CORS_ORIGINS": "https://one.example, http://[::1]:3000",
        "REDIS_URL": "rediss://:hush@cache.example:6380/2?ssl_cert_reqs=none",
    }
    for name, value in given.items():
        monkeypatch.setenv(PREFIX + name, value)
    assert load_settings() == Settings(
        data_dir=Path("/srv/data"),
        elasticsearch_url=("https://one.example:9200", "http://two.example:9200"),
        elasticsearch_api_key="a2V5",
        elasticsearch_prefix="staging-1",
        public_url="https://ci.example/merge",
        bind="::",
        port=0,
        workers=4,
        secret="anything at all",
        log_level=LogLevel.DEBUG,
        log_format=LogFormat.TEXT,
        retention_days=7,
        rollup_days=400,
        prune_at=time(3, 17),
        url="https://ci.example/merge",
        token="mw_anything",
        ingest=True,
        host_api_url="https://host.example/api/v3",
        rate_limit="600/minute",
        metrics=True,
        metrics_repositories=(RepositoryName("Acme", "Widgets"), RepositoryName("acme", "gadgets")),
        cors_origins=("https://one.example", "http://[::1]:3000"),
        redis_url="rediss://:hush@cache.example:6380/2?ssl_cert_reqs=none",
    )


BAD = {
    "PUBLIC_URL": ["ftp://a", "a.example", "https://", "https://a?b", "https://a/#b", "http://:1x"],
    "ELASTICSEARCH_URL": [
        "es.example:9200",
        "http://a,",
        "http://a,ftp://b",
        "http://a:0",
        "http://a..b",
        "http://a,http://a",
        "http://a:9200,http://a:9200/",
        "http://a:9200,http://A:9200",
        "https://a,https://a:443",
    ],
    "ELASTICSEARCH_API_KEY": ["two\nlines"],
    "ELASTICSEARCH_PREFIX": ["-a", "A", "a*", "a" * 101],
    "PORT": ["a", "-1", "65536", "80.5"],
    "WORKERS": ["0", "65", "many"],
    "LOG_LEVEL": ["loud", "info debug"],
    "LOG_FORMAT": ["xml"],
    "RETENTION_DAYS": ["0", "-5", "36501", "a month"],
    "ROLLUP_DAYS": ["0", "-5", "36501", "two years"],
    "PRUNE_AT": ["3:17", "24:00", "03:60", "03:17:00", "0317", "03:17\n", "03:17+02:00", "noon"],
    "URL": ["ci.example", "https://user:pass@ci.example"],
    "TOKEN": ["two\nlines", "\u00e9"],
    "INGEST": ["2", "maybe", "tru"],
    "HOST_API_URL": [
        "host.example",
        "http://host.example",
        "http://10.0.0.1",
        "https://a@b.example",
    ],
    "METRICS": ["perhaps"],
    "METRICS_REPOSITORIES": [
        "acme",
        "a/b,",
        "a b/c",
        "a/b/c",
        ",".join(f"acme/r{number}" for number in range(21)),
    ],
    "RATE_LIMIT": ["600", "0/minute", "600/fortnight", "6 per minute", "600/minute\n", "-1/day"],
    "CORS_ORIGINS": ["one.example", "https://one.example/", "https://one.example;*", "null", ","],
    "REDIS_URL": [
        "cache.example:6379",
        "http://:hush@cache.example",
        "redis://:hush@",
        "redis://:hush@cache.example:port",
        "redis://:hush@cache.example/name",
        "redis://:hush@cache.example?socket_timeout=9",
        "redis://:hush@cache.example?db=name",
        "redis://:hush@cache.example:0",
        "redis://:hush@cache.example?ssl_cert_reqs=none",
        "unix:///run/redis.sock?ssl_check_hostname=false",
        "rediss://:hush@cache.example?ssl_cert_reqs=perhaps",
        "rediss://:hush@cache.example?ssl_check_hostname=never",
        "rediss://:hush@cache.example?ssl_keyfile=/missing.pem",
        "unix://",
    ],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_a_bad_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(SettingsError, match=PREFIX + name) as refused:
        load_settings()
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    "option",
    [
        "ssl_ca_certs=/missing.pem",
        f"ssl_ca_certs={__file__}",
        "ssl_ca_certs=%00",
        "ssl_ca_certs=/missing.pem&ssl_ca_certs=",
        "ssl_certfile=/missing.pem",
        "ssl_certfile=/missing.pem&ssl_keyfile=/missing.pem",
    ],
)
def test_files_for_redis_are_checked_only_where_redis_is_used(
    monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv("MERGEWATCH_REDIS_URL", f"rediss://:hush@cache.example?{option}")
    settings = load_settings()
    with pytest.raises(SettingsError, match="MERGEWATCH_REDIS_URL: must have") as refused:
        check_redis_files(settings)
    assert "hush" not in str(refused.value)


def test_all_errors_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, values in BAD.items():
        monkeypatch.setenv(PREFIX + name, values[0])
    monkeypatch.setenv(PREFIX + "SECRET", "hush")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    message = str(refused.value)
    assert [name for name in BAD if PREFIX + name in message] == [*BAD]
    assert "hush" not in message


def test_the_secret_is_not_shown_and_settings_do_not_change() -> None:
    settings = Settings(secret="hush", token="mw_hush", redis_url="redis://:hush@a")
    assert "hush" not in repr(settings)
    with pytest.raises(FrozenInstanceError):
        setattr(settings, fields(Settings)[0].name, Path())


def test_the_port_that_kubernetes_names_is_not_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    # Kubernetes sets it so for a service named mergewatch.
    monkeypatch.setenv("MERGEWATCH_PORT", "tcp://10.0.0.1:9090")
    assert load_settings().port == Settings().port


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("REDIS_URL", "redis://:hu/sh@cache.example"),
        ("REDIS_URL", "redis://:hu#sh@cache.example"),
        ("ELASTICSEARCH_URL", "https://elastic:hu/sh@es.example"),
        ("ELASTICSEARCH_URL", "https://elastic:hu?sh@es.example"),
    ],
)
def test_a_password_that_is_not_encoded_is_told_what_to_do(
    monkeypatch: pytest.MonkeyPatch, name: str, url: str
) -> None:
    monkeypatch.setenv(PREFIX + name, url)
    with pytest.raises(SettingsError, match="percent-encode"):
        load_settings()


def test_a_url_that_may_have_no_credentials_is_refused_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MERGEWATCH_URL", "https://user:pass@ci.example")
    with pytest.raises(SettingsError, match="without credentials"):
        load_settings()


def test_the_address_of_the_service_has_no_version_of_the_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for url in ("https://ci.example/v1", "https://ci.example/prefix/v1/"):
        monkeypatch.setenv("MERGEWATCH_URL", url)
        with pytest.raises(SettingsError, match=r"MERGEWATCH_URL.*without /v1"):
            load_settings()
    monkeypatch.setenv("MERGEWATCH_URL", "https://ci.example/v1x/")
    assert load_settings().url == "https://ci.example/v1x"


def test_a_secret_may_have_any_bytes() -> None:
    # Python reads bytes that are not UTF-8 as surrogates.
    assert choose_secret("\udcff\udcfe", b"made") != choose_secret("\udcff", b"made")


def test_variables_that_are_almost_settings_are_found() -> None:
    others = [
        "MERGEWATCH_REDIS_URL",
        "MERGEWATCH_KEY",
        "MERGEWATCH_TEST_ELASTICSEARCH_URL",
        # Kubernetes sets these for a service named mergewatch.
        "MERGEWATCH_SERVICE_HOST",
        "MERGEWATCH_SERVICE_PORT",
        "MERGEWATCH_PORT_8080_TCP",
        "MERGEWATCH_PORT_8080_TCP_PORT",
        "REDIS_ULR",
    ]
    assert not list(find_misspelled(others))
    wrong = {
        "MERGEWATCH_REDIS_ULR": "MERGEWATCH_REDIS_URL",
        "MERGEWATCH_WORKER": "MERGEWATCH_WORKERS",
        "MERGEWATCH_LOGLEVEL": "MERGEWATCH_LOG_LEVEL",
        "MERGEWATCH_RETENTION_DAY": "MERGEWATCH_RETENTION_DAYS",
    }
    assert dict(find_misspelled([*others, *wrong])) == wrong


def test_settings_of_elasticsearch_without_its_url_are_found() -> None:
    given = {
        "MERGEWATCH_ELASTICSEARCH_PREFIX": "ci",
        "MERGEWATCH_ELASTICSEARCH_API_KEY": "a2V5",
        # Kubernetes sets such a variable for a service named mergewatch-elasticsearch.
        "MERGEWATCH_ELASTICSEARCH_SERVICE_HOST": "10.0.0.1",
    }
    assert set(find_without_url(given)) == {
        "MERGEWATCH_ELASTICSEARCH_PREFIX",
        "MERGEWATCH_ELASTICSEARCH_API_KEY",
    }
    assert not [*find_without_url({**given, "MERGEWATCH_ELASTICSEARCH_URL": "http://es:9200"})]
    assert [*find_without_url({**given, "MERGEWATCH_ELASTICSEARCH_URL": ""})]
    assert not [*find_without_url({"MERGEWATCH_ELASTICSEARCH_PREFIX": ""})]
