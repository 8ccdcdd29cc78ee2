# The server of queues, in place of docker.io/valkey/valkey. RUNLEVEL=1: the package may not start it as a service.
ARG BASE
FROM ${BASE}
RUN apt-get update -qq \
 && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends valkey-server valkey-tools \
 && rm -rf /var/lib/apt/lists/*
USER 999:999
