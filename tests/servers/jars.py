"""The home folder of Elasticsearch, assembled from the jars that the project publishes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from jgo.env import EnvironmentBuilder
from jgo.maven import MavenContext

VERSION: Final = "9.5.3"
ENDPOINT: Final = (
    f"org.elasticsearch:elasticsearch:{VERSION}+org.elasticsearch.plugin:transport-netty4:{VERSION}"
)
MODULE: Final = "transport-netty4"
CACHE: Final = Path(__file__).parents[2] / ".servers"


class JarsMissingError(RuntimeError):
    """The jars are not in the cache and cannot be downloaded."""


def elasticsearch_home(cache: Path = CACHE) -> Path:
    """The home folder, created if missing: `lib`, the module path, and `modules`."""
    home = cache / f"elasticsearch-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    # Two sessions may both try to create it first.
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.is_dir():
            # All or nothing: an interrupted download must not be mistaken for a complete one.
            with tempfile.TemporaryDirectory(dir=cache) as made:
                _lay_out(_fetch(Path(made)), Path(made, "home"))
                Path(made, "home").rename(home)
    return home


def _fetch(folder: Path) -> list[Path]:
    # The downloader reads its own variable; everything else reads `SSL_CERT_FILE`.
    if trusted := os.environ.get("SSL_CERT_FILE"):
        os.environ.setdefault("REQUESTS_CA_BUNDLE", trusted)
    context = MavenContext(repo_cache=folder / "repository")
    try:
        built = EnvironmentBuilder(context, cache_dir=folder / "jgo").from_endpoint(ENDPOINT)
        return list(built.all_jars)
    # The reader needs only one error, whatever the cause: no jars, and why.
    except Exception as error:
        raise JarsMissingError(
            f"the jars of Elasticsearch {VERSION} could not be fetched ({error}); "
            "the first run needs the network, later ones do not"
        ) from error


def _lay_out(jars: Iterable[Path], home: Path) -> None:
    lib, module = home / "lib", home / "modules" / MODULE
    lib.mkdir(parents=True)
    module.mkdir(parents=True)
    for jar in jars:
        in_module = jar.name.startswith((f"{MODULE}-", "netty-"))
        _link(jar, (module if in_module else lib) / jar.name)
    (plugin,) = module.glob(f"{MODULE}-*.jar")
    with zipfile.ZipFile(plugin) as packed:
        for name in packed.namelist():
            if name.startswith(f"META-INF/es-plugins/{MODULE}/") and not name.endswith("/"):
                (module / Path(name).name).write_bytes(packed.read(name))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)
