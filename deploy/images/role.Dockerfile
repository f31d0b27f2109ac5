# One role: its static binary and an empty folder for its state. No shell, no package manager, no other file.
FROM scratch
ARG UID=65532
COPY role /role
COPY --chown=65532:65532 empty /state
USER ${UID}:${UID}
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=3 CMD ["/role", "healthcheck"]
ENTRYPOINT ["/role"]
