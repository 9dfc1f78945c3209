"""The container files, checked against the code and against each other.

No container engine is needed: the tests only read the files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from opentelemetry import environment_variables as api_variables
from opentelemetry.sdk import environment_variables as sdk_variables

from service.config.settings import DECLARATIONS
from service.server.process import SHUTDOWN_SECONDS
from tests.servers.jars import VERSION

ROOT: Final = Path(__file__).parents[1]
DOCKERFILE: Final = (ROOT / "Dockerfile").read_text(encoding="utf-8")
FILES: Final = {
    path.name: yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in ROOT.glob("docker-compose*.yml")
}
DISTRIBUTED: Final = FILES["docker-compose.yml"]
# Their processes begin as root if nothing else is said; the others have a user of their own.
ROOT_IMAGES: Final = {"caddy", "redis"}
SERVICES: Final = [
    pytest.param(file, name, id=f"{file}: {name}")
    for file, content in FILES.items()
    for name in content["services"]
]


def service_of(file: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = FILES[file]["services"][name]
    return found


def seconds(duration: str) -> int:
    found = re.fullmatch(r"(\d+)s", duration)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize(("file", "name"), SERVICES)
def test_every_container_is_watched_bounded_and_without_privileges(file: str, name: str) -> None:
    service = service_of(file, name)
    assert {"test", "interval", "timeout", "retries"} <= set(service["healthcheck"])
    assert {"cpus", "memory"} == set(service["deploy"]["resources"]["limits"])
    assert service["restart"] == "unless-stopped"
    assert "stop_grace_period" in service
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service


@pytest.mark.parametrize(("file", "name"), SERVICES)
def test_no_container_runs_as_root(file: str, name: str) -> None:
    service = service_of(file, name)
    image = service["image"].partition(":")[0]
    user = service.get("user", "root" if image in ROOT_IMAGES else "of the image")
    assert user.partition(":")[0] not in {"root", "0"}


@pytest.mark.parametrize(("file", "name"), SERVICES)
def test_what_a_container_names_is_declared(file: str, name: str) -> None:
    content, service = FILES[file], service_of(file, name)
    assert set(service.get("networks", ())) <= set(content.get("networks", ()))
    assert set(service.get("depends_on", ())) <= set(content["services"])
    for volume in service.get("volumes", ()):
        source = volume.split(":")[0]
        assert (ROOT / source).is_file() if source.startswith(".") else source in content["volumes"]


@pytest.mark.parametrize("file", FILES)
def test_the_deployment_uses_known_settings(file: str) -> None:
    declared = {declaration.variable for declaration in DECLARATIONS}
    given = set(service_of(file, "mergewatch")["environment"])
    assert {name for name in given if not name.startswith("OTEL_")} <= declared
    # The API and the SDK have names for those that they read.
    known = {*vars(api_variables), *vars(sdk_variables)}
    assert {name for name in given if name.startswith("OTEL_")} <= known


@pytest.mark.parametrize("file", FILES)
def test_the_deployment_passes_what_an_operator_may_set(file: str) -> None:
    # Without a value, a variable is passed if it is set.
    given = {
        name
        for name, value in service_of(file, "mergewatch")["environment"].items()
        if value is None or re.fullmatch(rf"\$\{{{name}:-.*\}}", value)
    }
    settings = {each.variable for each in DECLARATIONS}
    # The stores, the addresses in the container, and what only clients use.
    own = r"MERGEWATCH_(DATA_DIR|ELASTICSEARCH_\w+|REDIS_URL|BIND|PORT|URL|TOKEN)"
    assert {each for each in settings if not re.fullmatch(own, each)} <= given
    traces = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").partition("## Traces")[2]
    assert set(re.findall(r"^\| .*?(OTEL_\w+)", traces, re.MULTILINE)) <= given


@pytest.mark.parametrize("file", FILES)
def test_the_service_has_time_to_finish_what_is_under_way(file: str) -> None:
    assert seconds(service_of(file, "mergewatch")["stop_grace_period"]) > SHUTDOWN_SECONDS


def test_two_replicas_stand_behind_one_port() -> None:
    services = DISTRIBUTED["services"]
    assert services["mergewatch"]["deploy"]["replicas"] == 2
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {
        "proxy": ["127.0.0.1:8080:8080"],
        "grafana": ["127.0.0.1:3000:3000"],
        "jaeger": ["127.0.0.1:16686:16686"],
    }
    proxy = (ROOT / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    assert re.search(r"^:8080 \{$", proxy, re.MULTILINE)
    upstream = re.search(r"name \{\$\w+:(.+)\}\n\s+port \{\$\w+:(.+)\}", proxy)
    assert upstream is not None
    port = next(declared for declared in DECLARATIONS if declared.variable == "MERGEWATCH_PORT")
    assert upstream.groups() == ("mergewatch", port.default)
    assert f"EXPOSE {port.default}\n" in DOCKERFILE


def test_the_stores_are_reached_by_the_service_alone() -> None:
    services = DISTRIBUTED["services"]
    environment = services["mergewatch"]["environment"]
    assert environment["MERGEWATCH_ELASTICSEARCH_URL"] == "http://elasticsearch:9200"
    assert environment["MERGEWATCH_REDIS_URL"] == "redis://redis:6379/0"
    assert DISTRIBUTED["networks"]["back"] == {"internal": True}
    members = {name for name, service in services.items() if "back" in service["networks"]}
    assert members == {"mergewatch", "elasticsearch", "redis"}
    for store in ("elasticsearch", "redis"):
        assert services[store]["networks"] == ["back"]


def test_the_tests_run_on_the_elasticsearch_that_is_deployed() -> None:
    assert DISTRIBUTED["services"]["elasticsearch"]["image"] == f"elasticsearch:{VERSION}"


def test_the_cache_is_bounded_within_its_container_and_keeps_nothing() -> None:
    redis = DISTRIBUTED["services"]["redis"]
    options = dict(zip(redis["command"][1::2], redis["command"][2::2], strict=True))
    assert options == {
        "--save": "",
        "--appendonly": "no",
        "--maxmemory": "256mb",
        "--maxmemory-policy": "allkeys-lru",
    }
    assert redis["deploy"]["resources"]["limits"]["memory"] == "384M"


def test_only_what_observes_the_service_needs_a_profile() -> None:
    chosen = {
        name: each["profiles"]
        for name, each in DISTRIBUTED["services"].items()
        if "profiles" in each
    }
    assert chosen == {"prometheus": ["metrics"], "grafana": ["metrics"], "jaeger": ["tracing"]}


def test_traces_go_to_a_viewer_that_takes_and_shows_them() -> None:
    jaeger = DISTRIBUTED["services"]["jaeger"]
    (option,) = jaeger["command"]
    (mounted,) = jaeger["volumes"]
    source, target, _ = mounted.split(":")
    assert option == f"--config={target}"
    configuration = yaml.safe_load((ROOT / source).read_text(encoding="utf-8"))
    (pipeline,) = configuration["service"]["pipelines"].values()
    for kind, names in (*pipeline.items(), ("extensions", configuration["service"]["extensions"])):
        assert set(names) == set(configuration[kind])
    extensions = configuration["extensions"]
    stored = configuration["exporters"]["jaeger_storage_exporter"]["trace_storage"]
    assert stored == extensions["jaeger_query"]["storage"]["traces"]
    assert extensions["jaeger_storage"]["backends"][stored]["memory"]["max_traces"] <= 20_000
    # Its healthcheck, its page and its receiver are where the others look for them.
    assert extensions["healthcheckv2"]["http"]["endpoint"] in jaeger["healthcheck"]["test"][-1]
    (published,) = jaeger["ports"]
    assert extensions["jaeger_query"]["http"]["endpoint"].endswith(f":{published.split(':')[-1]}")
    receiver = configuration["receivers"]["otlp"]["protocols"]["http"]["endpoint"]
    endpoint = f"OTEL_EXPORTER_OTLP_ENDPOINT=http://jaeger:{receiver.split(':')[1]}"
    for path in ("docker-compose.yml", "docs/operations.md"):
        assert endpoint in (ROOT / path).read_text(encoding="utf-8")
    # The service has the variable and the network, and its image has the SDK.
    service = DISTRIBUTED["services"]["mergewatch"]
    assert service["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == (
        "${OTEL_EXPORTER_OTLP_ENDPOINT:-}"
    )
    assert set(jaeger["networks"]) <= set(service["networks"])
    installs = re.findall(r"^RUN uv sync .*$", DOCKERFILE, re.MULTILINE)
    assert installs
    assert all("--extra otel" in each for each in installs)


def test_metrics_are_kept_and_served_only_if_enabled() -> None:
    configuration = (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    (job,) = yaml.safe_load(configuration)["scrape_configs"]
    (replicas,) = job["dns_sd_configs"]
    port = next(declared for declared in DECLARATIONS if declared.variable == "MERGEWATCH_PORT")
    assert (replicas["names"], str(replicas["port"])) == (["mergewatch"], port.default)
    # The proxy must not pass them on.
    proxy = (ROOT / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    assert "\trespond /metrics 404\n" in proxy


def test_the_image_runs_as_a_user_of_its_own_and_hears_sigterm() -> None:
    _, build, run = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert " AS build\n" in build
    assert "USER mergewatch\n" in run
    assert "STOPSIGNAL SIGTERM\n" in run
    # A shell in between would not pass the signal on.
    assert 'ENTRYPOINT ["mergewatch"]\nCMD ["serve"]\n' in run


def test_the_image_has_bytecode_because_its_user_can_write_none() -> None:
    _, build, run = re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)
    assert re.search(r"^ENV .*\bUV_COMPILE_BYTECODE=1\b", build, re.MULTILINE)
    # That of the packages comes with them; the standard library's has to be made as root.
    before_the_user = run.partition("USER mergewatch\n")[0]
    assert re.search(r"^RUN python -m compileall ", before_the_user, re.MULTILINE)


def test_the_image_is_built_of_files_that_are_there_and_not_ignored() -> None:
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    for copied in re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for name in copied.split():
            assert (ROOT / name).exists()
            assert f"!{name}" in allowed


def test_the_image_is_built_by_the_version_of_uv_that_everything_else_uses() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    used = re.search(r"^UV_VERSION := (\S+)$", makefile, re.MULTILINE)
    assert used is not None
    assert f"uv=={used[1]}\n" in DOCKERFILE
