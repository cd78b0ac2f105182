# One image for the operator, the runner and the bundled workspace server.
# Any base with CPython >= 3.11 as `python`, its venv module and a shell will do.
ARG BASE_IMAGE=python:3.13-slim-trixie

FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/build && python -m venv /opt/agentrun
COPY requirements-build.lock ./
RUN /opt/build/bin/pip install --require-hashes -r requirements-build.lock
# before the sources: they change more often than what they stand on
COPY requirements.lock ./
RUN /opt/agentrun/bin/pip install --require-hashes --no-compile -r requirements.lock
COPY pyproject.toml README.md ./
COPY operator ./operator
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/agentrun/bin/pip install --no-deps --no-index --no-compile /wheels/*.whl \
 && /opt/agentrun/bin/pip check \
 && /opt/agentrun/bin/pip uninstall --yes pip

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title=agentrun \
      org.opencontainers.image.licenses=Apache-2.0
COPY --from=build /opt/agentrun /opt/agentrun
# Nothing can be compiled at run time, under a read-only root and as another
# user, and importing uncompiled sources takes twice as long. The standard
# library is included: slim bases come without its compiled files.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
      "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" /opt/agentrun/lib \
 && echo 'agentrun:x:65532:65532:agentrun:/tmp:/sbin/nologin' >> /etc/passwd \
 && echo 'agentrun:x:65532:' >> /etc/group
ENV PATH=/opt/agentrun/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp
USER 65532:65532
ENTRYPOINT ["agentrun"]
