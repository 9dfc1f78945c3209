"""`mergewatch serve`: runs the HTTP service."""

from __future__ import annotations

import gc
from dataclasses import replace

import click

from service.config.redis_files import check_redis_files
from service.config.settings import MAX_PORT, MAX_WORKERS, load_settings


@click.command()
@click.option("--bind", metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, MAX_PORT), help="The port to listen on; 0 picks a free one."
)
@click.option(
    "--workers", type=click.IntRange(1, MAX_WORKERS), help="The number of worker processes."
)
def serve(bind: str | None, port: int | None, workers: int | None) -> None:
    """Run the service until SIGTERM, SIGINT or SIGHUP; options override settings."""
    # Imports leave little garbage, yet collecting it would take a tenth of the start-up time. `run`
    # enables the collector again.
    gc.disable()
    # Only this command needs the HTTP server, which is slow to import.
    from service.server.process import serve as run

    settings = load_settings()
    check_redis_files(settings)
    run(
        replace(
            settings,
            bind=settings.bind if bind is None else bind,
            port=settings.port if port is None else port,
            workers=settings.workers if workers is None else workers,
        )
    )
