# Settings that the scripts of this folder share; sourced by them, never run. Any of them can be set in the environment.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# What docker-compose calls the deployment, and the tag of its images.
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-riffle}
export RIFFLE_TAG=${RIFFLE_TAG:-local}
# Where keys and rendered configuration lie. Secret: never in the repository.
export RIFFLE_RUN=${RIFFLE_RUN:-$here/run}
# Where the roles' configuration files lie.
export RIFFLE_CONFIG=${RIFFLE_CONFIG:-$here/config}
# Randomizer hosts and how many devices each may enrol. compose.yaml runs host1 and host2.
export RIFFLE_HOSTS=${RIFFLE_HOSTS:-host1=10000 host2=10000}
# Ports of this machine's loopback on which the operator's tools find the broker, and apps the randomizers.
export RIFFLE_BROKER_PORT=${RIFFLE_BROKER_PORT:-4222}
export RIFFLE_API_PORT_1=${RIFFLE_API_PORT_1:-8401} RIFFLE_API_PORT_2=${RIFFLE_API_PORT_2:-8402}
# Ports of this machine's loopback for the roles' ops listeners: the shuffler's, the analyzer's, host1's, host2's.
export RIFFLE_SHUFFLER_OPS_PORT=${RIFFLE_SHUFFLER_OPS_PORT:-9401} RIFFLE_ANALYZER_OPS_PORT=${RIFFLE_ANALYZER_OPS_PORT:-9402}
export RIFFLE_OPS_PORT_1=${RIFFLE_OPS_PORT_1:-9411} RIFFLE_OPS_PORT_2=${RIFFLE_OPS_PORT_2:-9412}
# First three numbers of the addresses of the deployment's own networks, which nobody outside of it sees; two deployments on one machine
# must differ in them, so they follow from the name.
name_sum=$(printf %s "$COMPOSE_PROJECT_NAME" | cksum | cut -d ' ' -f 1)
export RIFFLE_SUBNET=${RIFFLE_SUBNET:-10.$((128 + name_sum % 64)).$((name_sum / 64 % 256))}
# Bytes on the broker's disk: of reports that wait, of mixed messages that wait, and of all streams together. The broker sets the first two
# aside within the third, which must be well below what the disk has free: beyond it a write is refused, on a full disk the broker fails.
# Between them: bytes of one report, and reports that one host may have waiting. See riffle broker provision --help.
export RIFFLE_MAX_REPORT_BYTES=${RIFFLE_MAX_REPORT_BYTES:-2147483648} RIFFLE_MAX_MIXED_BYTES=${RIFFLE_MAX_MIXED_BYTES:-2147483648}
export RIFFLE_MAX_REPORT_SIZE=${RIFFLE_MAX_REPORT_SIZE:-131072} RIFFLE_MAX_HOST_REPORTS=${RIFFLE_MAX_HOST_REPORTS:-8192}
export RIFFLE_MAX_STORE=${RIFFLE_MAX_STORE:-8589934592}
# The numeric user inside the containers. Private keys are readable by their owner alone, so it must own them: where root deploys, keys
# are given to 65532; anybody else deploys with containers of their own user.
if [ "$(id -u)" = 0 ]; then default_uid=65532; else default_uid=$(id -u); fi
export RIFFLE_UID=${RIFFLE_UID:-$default_uid}

riffle=$RIFFLE_RUN/bin/riffle

# The compose files of the variant that is up (or is being brought up): one broker, or three.
files=(-f "$here/compose.yaml")
if [ -e "$RIFFLE_RUN/cluster" ]; then
    files+=(-f "$here/compose.cluster.yaml")
    export RIFFLE_BROKER_URL=tls://nats:4222,tls://nats2:4222,tls://nats3:4222 RIFFLE_REPLICAS=3
fi
# Further compose files on top, separated by spaces: such as compose.prometheus.yaml, or one of your own.
for file in ${RIFFLE_COMPOSE_EXTRA:-}; do files+=(-f "$file"); done

compose() { docker-compose "${files[@]}" "$@"; }

if ! command -v docker-compose >/dev/null; then
    compose() { docker compose "${files[@]}" "$@"; }
fi

# Keeps the logs of containers that are about to be removed, which Docker removes with them: one file a container and time.
keep_logs() {
    local id name at
    at=$(date -u +%Y%m%dT%H%M%SZ)
    for id in $(docker ps -aq --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"); do
        name=$(docker inspect -f '{{index .Config.Labels "com.docker.compose.service"}}' "$id")
        mkdir -p "$RIFFLE_RUN/logs"
        docker logs --timestamps "$id" >"$RIFFLE_RUN/logs/$name-$at.log" 2>&1 || true
    done
}

# Gives the containers' user what it must own. Only root needs to, and only root can.
own() { if [ "$(id -u)" = 0 ]; then chown -R "$RIFFLE_UID:$RIFFLE_UID" "$@"; fi; }

# Writes the brokers' configuration from the keys.
render() {
    local names=(nats) name peer
    if [ -e "$RIFFLE_RUN/cluster" ]; then names=(nats nats2 nats3); fi
    mkdir -p "$RIFFLE_RUN/nats"
    for name in "${names[@]}"; do
        local peers=()
        for peer in "${names[@]}"; do [ "$peer" = "$name" ] || peers+=(--peer "$peer"); done
        "$riffle" broker config --keys "$RIFFLE_RUN/keys" --out "$RIFFLE_RUN/nats/$name.conf" --name "$name" --max-store "$RIFFLE_MAX_STORE" "${peers[@]}" >/dev/null
    done
}

# Waits until every running service says that it is healthy. Needs no more than the Docker client.
wait_healthy() {
    local until=$((SECONDS + ${1:-120})) waiting id state
    while :; do
        waiting=
        for id in $(compose ps -q); do
            state=$(docker inspect -f '{{.Name}} {{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}} {{.State.ExitCode}}' "$id")
            case $state in
            *" running healthy "* | *" exited "*" 0") ;;
            *) waiting+="${state#/}; " ;;
            esac
        done
        [ -n "$waiting" ] || return 0
        if [ $SECONDS -ge $until ]; then
            echo "deploy: not healthy: $waiting" >&2
            compose logs --tail=20 >&2
            return 1
        fi
        sleep 0.5
    done
}
