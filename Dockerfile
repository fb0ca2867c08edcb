# One image for every command of mdscaler. Build from the root of the repository, with the tag that manifests/ ask for:
# the line is in README.md, "Run it on a cluster".
# Both stages start from the same base, or the interpreter that the virtual environment points to would differ.
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS builder
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY controller ./controller
COPY webhooks ./webhooks
COPY catalog ./catalog
# The environment gets no pip of its own. Dependencies come as wheels or not at all: no stage has a compiler.
# Unchecked bytecode is used whatever the timestamps of the copied sources, and nothing is compiled at start.
RUN python -m venv --without-pip /opt/mdscaler \
    && python -m pip --python /opt/mdscaler/bin/python install --no-compile --only-binary :all: . \
    && /opt/mdscaler/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/mdscaler/lib

FROM ${PYTHON_IMAGE}
ARG VERSION=0.0.0+unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="model-deployment-scaler" \
      org.opencontainers.image.description="Autoscaler for the replicas of large-language-model deployments on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Read-only root file system: no bytecode is written. Safe path: the working directory is no place to import from.
# One BLAS thread: the arrays are small, and every further thread costs memory and gains nothing.
ENV PATH=/opt/mdscaler/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONSAFEPATH=1 \
    OPENBLAS_NUM_THREADS=1
COPY --from=builder /opt/mdscaler /opt/mdscaler
# A number, not a name: `runAsNonRoot` cannot check names. In /tmp that user can write the report of a demo.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["mdscaler"]
CMD ["--help"]
