# This file builds the images of the live server and of submissions, with or without CUDA. In a checkout:
#   docker build -t alignatt .                        the live server, with a volume for weights at /weights
#   docker build -t alignatt --build-arg EXTRA=cpu .  without a GPU, for the embedded models
# `alignatt submission build` copies this file with KIND=submission: the agent behind Simulstream's HTTP server.
#   docker build -t NAME .                            weights are mounted at /weights at run time
#   docker build -t NAME --build-arg WEIGHTS=baked .  weights are copied from weights/ into the image
# BuildKit (the default since Docker 23) is required, so that only the stages of the chosen KIND are built.
ARG PYTHON_IMAGE=python:3.11.13-slim-bookworm
ARG KIND=server
ARG SOURCE=.
ARG WEIGHTS=mounted

FROM ${PYTHON_IMAGE} AS base
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Triton and torch compile with g++ at start-up, and vLLM needs libnuma1. tini reaps engine processes and
# forwards signals. The versions are those of the Debian release of PYTHON_IMAGE; mirrors delete others.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ libc6-dev libnuma1 tini \
    && rm -rf /var/lib/apt/lists/*
ARG EXTRA=cuda
ARG SOURCE
ENV PIP_NO_CACHE_DIR=1
WORKDIR /opt/alignatt
# The locked environment changes rarely, so it is a separate layer below the source.
COPY ${SOURCE}/pyproject.toml ${SOURCE}/LICENSE ${SOURCE}/README.md ./
COPY ${SOURCE}/requirements/ requirements/
COPY ${SOURCE}/alignatt_agent/__init__.py alignatt_agent/__init__.py
RUN sh requirements/install.sh "${EXTRA}"
COPY ${SOURCE}/ ./
RUN useradd --create-home --uid 1000 agent && mkdir -p /weights && chown agent /weights
# FlashInfer's sampler would compile CUDA code at start-up. Greedy decoding does not need it.
ENV PATH=/opt/alignatt/.venv/bin:${PATH} \
    HOME=/home/agent \
    HF_HOME=/weights/huggingface \
    HF_HUB_DISABLE_TELEMETRY=1 \
    VLLM_NO_USAGE_STATS=1 \
    VLLM_LOGGING_LEVEL=ERROR \
    VLLM_USE_FLASHINFER_SAMPLER=0 \
    PYTHONUNBUFFERED=1 \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
# Relative checkpoint paths of the configurations are looked up in the working directory.
WORKDIR /weights
EXPOSE 8080
# Python exits cleanly after SIGINT, but not after SIGTERM. With SIGINT, `docker stop` also stops the engines.
STOPSIGNAL SIGINT

FROM base AS server
VOLUME /weights
# The status is 200 while streams can be served. Until the engines are warm, the container is "starting".
HEALTHCHECK --interval=15s --timeout=10s --start-period=900s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/health')"]
# Any command of alignatt can follow the name of the image, e.g. fetch default-low, doctor, demo --once.
ENTRYPOINT ["tini", "--", "alignatt"]
CMD ["serve", "--config", "default-low", "--host", "0.0.0.0"]

FROM base AS weights-mounted

FROM base AS weights-baked
COPY --chown=agent weights/ /weights/

# hadolint ignore=DL3006
FROM weights-${WEIGHTS} AS submission
COPY server.yaml /opt/alignatt/
COPY systems/ /opt/alignatt/systems/
ENV HF_HUB_OFFLINE=1
# The port opens as soon as the engines are loaded and warm. Until then, the container is "starting".
HEALTHCHECK --interval=15s --timeout=10s --start-period=900s --retries=3 \
    CMD ["alignatt", "submission", "health"]
# Pass the name of a system, e.g. low/en-de. Without a name, the known names are printed.
ENTRYPOINT ["tini", "--", "alignatt", "submission", "serve", "--root", "/opt/alignatt"]

# hadolint ignore=DL3006
FROM ${KIND}
USER 1000
