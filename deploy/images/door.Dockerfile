# A door, which forwards ports of this machine to a role: one static binary, no key and no state.
FROM scratch
ARG UID=65532
COPY door /door
USER ${UID}:${UID}
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 CMD ["/door", "healthcheck"]
ENTRYPOINT ["/door"]
