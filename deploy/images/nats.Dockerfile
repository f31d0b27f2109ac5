# The broker: nats-server in the version of go.mod, an empty folder for the streams, and a health check, which also ends
# a broker that needs a restart (--restart).
FROM scratch
ARG UID=65532
COPY nats-server healthcheck /
COPY --chown=65532:65532 empty /data
USER ${UID}:${UID}
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 CMD ["/healthcheck", "--restart"]
ENTRYPOINT ["/nats-server", "--config", "/etc/nats/nats.conf"]
