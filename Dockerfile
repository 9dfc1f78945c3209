# Build: everything that the lock file names, into one folder.
FROM python:3.13-slim AS build
WORKDIR /app
ENV UV_PROJECT_ENVIRONMENT=/app/.venv UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
RUN pip install --no-cache-dir uv==0.13.9
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN uv sync --locked --no-default-groups --extra otel --no-install-project
COPY mergewatch mergewatch
COPY service service
COPY indexing indexing
COPY examples examples
RUN uv sync --locked --no-default-groups --extra otel --no-editable

# Run: that folder, and a user of its own.
FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /data mergewatch && install -d -o mergewatch -m 700 /data
# The image of Python has no bytecode, and that user can write none: each command and health check
# would compile all that it imports.
RUN python -m compileall -q "$(python -c 'import os; print(os.path.dirname(os.__file__))')"
COPY --from=build /app/.venv /app/.venv
ENV PATH=/app/.venv/bin:$PATH MERGEWATCH_DATA_DIR=/data MERGEWATCH_BIND=0.0.0.0
USER mergewatch
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["mergewatch"]
CMD ["serve"]
