# One image for the operator, the runner and the bundled workspace server.
# Any base will do that has CPython >= 3.11 as `python`, with its venv module, and a shell.
ARG BASE_IMAGE=python:3.13-slim-trixie

# What the project stands on, in layers that change only with the lock files.
FROM ${BASE_IMAGE} AS dependencies
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/build && python -m venv --without-pip /opt/agentrun
COPY requirements-build.lock ./
RUN /opt/build/bin/pip install --require-hashes -r requirements-build.lock
COPY requirements.lock ./
RUN /opt/build/bin/pip --python /opt/agentrun/bin/python install --no-compile --require-hashes -r requirements.lock \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/agentrun/lib

# The project as a wheel, its files laid out under /project as they will be in the image.
FROM dependencies AS build
COPY pyproject.toml README.md ./
COPY operator ./operator
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && pip="/opt/build/bin/pip --python /opt/agentrun/bin/python" \
 && $pip install --no-compile --no-deps --no-index --root /project /wheels/*.whl \
 && python -m compileall -q -s /project --invalidation-mode unchecked-hash /project/opt/agentrun/lib \
 && $pip install --no-compile --no-deps --no-index /wheels/*.whl \
 && $pip check

# Everything is compiled before it is run: nothing can be compiled afterwards, on
# a read-only root and as another user, and importing sources takes twice as
# long. Slim bases come without the standard library's compiled files.
FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title=agentrun \
      org.opencontainers.image.licenses=Apache-2.0
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
      "$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
 && echo 'agentrun:x:65532:65532:agentrun:/tmp:/sbin/nologin' >> /etc/passwd \
 && echo 'agentrun:x:65532:' >> /etc/group
COPY --from=dependencies /opt/agentrun /opt/agentrun
COPY --from=build /project/opt/agentrun /opt/agentrun
ENV PATH=/opt/agentrun/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp
USER 65532:65532
ENTRYPOINT ["agentrun"]
