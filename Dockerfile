# Built in one stage, run in another: the image holds Python, TaskTick and nothing to build with.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml LICENSE README.md ./
COPY tasktick ./tasktick
# --build-arg COMPILED=1: with the hot path compiled.
ARG COMPILED=
RUN if [ -n "$COMPILED" ]; then \
      apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev; \
    fi \
 && python -m venv /opt/tasktick \
 && HATCH_BUILD_HOOKS_ENABLE="${COMPILED:+1}" /opt/tasktick/bin/pip install --no-cache-dir ".[all]" \
 && /opt/tasktick/bin/pip uninstall --yes pip

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home tasktick \
 && install -d -o tasktick -g tasktick -m 0700 /var/lib/tasktick
COPY --from=build /opt/tasktick /opt/tasktick
ENV PATH=/opt/tasktick/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
VOLUME /var/lib/tasktick
EXPOSE 8080
# Calls in flight have 60 s to end: docker stop -t 75, or run --stop-timeout 75.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["tasktick"]
# Port 8080 of a container is behind the port that its operator publishes, hence --public.
CMD ["serve", "--data", "/var/lib/tasktick", "--listen", "0.0.0.0:8080", "--public"]
