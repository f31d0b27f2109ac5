# The umbrella command, for jobs such as provisioning.
FROM scratch
ARG UID=65532
COPY riffle /riffle
USER ${UID}:${UID}
ENTRYPOINT ["/riffle"]
