# Settings that the scripts of this folder share. The scripts source this file; it is never run. The environment
# overrides every setting.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# What docker-compose calls the deployment, and the tag of its images.
export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-riffle}
export RIFFLE_TAG=${RIFFLE_TAG:-local}
# The folder of the keys and the rendered configuration. It is secret, and must never be in the repository.
export RIFFLE_RUN=${RIFFLE_RUN:-$here/run}
# The folder of the roles' configuration files.
export RIFFLE_CONFIG=${RIFFLE_CONFIG:-$here/config}
# Randomizer hosts and how many devices each may enrol. compose.yaml runs host1 and host2.
export RIFFLE_HOSTS=${RIFFLE_HOSTS:-host1=10000 host2=10000}
# The channel: how people's sums reach the analyzer, and whom they trust for it (docs/trust.md). If it is not set, the
# analyzer's configuration file says it. A deployment keeps its channel for life, so $RIFFLE_RUN remembers it.
if [ -e "$RIFFLE_RUN/channel" ]; then
    remembered=$(cat "$RIFFLE_RUN/channel")
    if [ "${RIFFLE_CHANNEL:-$remembered}" != "$remembered" ]; then
        echo "deploy: $RIFFLE_RUN holds a deployment with the channel $remembered. Choose another RIFFLE_RUN," \
            "or end that deployment with deploy/down --volumes." >&2
        exit 1
    fi
    RIFFLE_CHANNEL=$remembered
fi
if [ -n "${RIFFLE_CHANNEL:-}" ]; then export RIFFLE_ANALYZER_PRIVACY_CHANNEL=$RIFFLE_CHANNEL; fi
# Ports on this machine's loopback: of the broker, for the operator's tools, and of the randomizers' APIs, for apps.
export RIFFLE_BROKER_PORT=${RIFFLE_BROKER_PORT:-4222}
export RIFFLE_API_PORT_1=${RIFFLE_API_PORT_1:-8401} RIFFLE_API_PORT_2=${RIFFLE_API_PORT_2:-8402}
# Ports on this machine's loopback of the ops listeners of the shuffler, the analyzer, host1 and host2.
export RIFFLE_SHUFFLER_OPS_PORT=${RIFFLE_SHUFFLER_OPS_PORT:-9401}
export RIFFLE_ANALYZER_OPS_PORT=${RIFFLE_ANALYZER_OPS_PORT:-9402}
export RIFFLE_OPS_PORT_1=${RIFFLE_OPS_PORT_1:-9411} RIFFLE_OPS_PORT_2=${RIFFLE_OPS_PORT_2:-9412}
# An ingress, for phones and web pages, and its ports on this machine's loopback.
export RIFFLE_INGRESS=${RIFFLE_INGRESS:-false}
export RIFFLE_INGRESS_PORT=${RIFFLE_INGRESS_PORT:-8405} RIFFLE_INGRESS_OPS_PORT=${RIFFLE_INGRESS_OPS_PORT:-9406}
# First three numbers of the addresses of the deployment's own networks, which are not visible outside the deployment.
# Two deployments on one machine must differ in them, so they are derived from the name.
name_sum=$(printf %s "$COMPOSE_PROJECT_NAME" | cksum | cut -d ' ' -f 1)
export RIFFLE_SUBNET=${RIFFLE_SUBNET:-10.$((128 + name_sum % 64)).$((name_sum / 64 % 256))}
# Most bytes on the broker's disk of reports that wait, of mixed messages that wait, of the analyzer's answers to the
# shuffler (in the channel shares), and of what the shuffler retains for the auditor (if audit.retain is set).
export RIFFLE_MAX_REPORT_BYTES=${RIFFLE_MAX_REPORT_BYTES:-2147483648}
export RIFFLE_MAX_MIXED_BYTES=${RIFFLE_MAX_MIXED_BYTES:-2147483648}
export RIFFLE_MAX_PREPARED_BYTES=${RIFFLE_MAX_PREPARED_BYTES:-268435456}
export RIFFLE_MAX_RETAINED_BYTES=${RIFFLE_MAX_RETAINED_BYTES:-1073741824}
# Most bytes of one report, and most reports that one host may have waiting: see riffle broker provision --help.
export RIFFLE_MAX_REPORT_SIZE=${RIFFLE_MAX_REPORT_SIZE:-131072} RIFFLE_MAX_HOST_REPORTS=${RIFFLE_MAX_HOST_REPORTS:-8192}
# Workers of the shuffler and of the analyzer, beside the roles' own processes (docs/scaling.md). Each network has room
# for ten of them. They need streams of their own, for which the broker sets aside 2.5 GiB more.
export RIFFLE_MIXING_WORKERS=${RIFFLE_MIXING_WORKERS:-0} RIFFLE_COUNTING_WORKERS=${RIFFLE_COUNTING_WORKERS:-0}
export RIFFLE_WITH_WORKERS=false RIFFLE_MAX_MIXING_BYTES=${RIFFLE_MAX_MIXING_BYTES:-2147483648}
export RIFFLE_MIXING=false RIFFLE_COUNTING=false
if [ "$RIFFLE_MIXING_WORKERS" -gt 0 ]; then RIFFLE_MIXING=true RIFFLE_WITH_WORKERS=true; fi
if [ "$RIFFLE_COUNTING_WORKERS" -gt 0 ]; then RIFFLE_COUNTING=true RIFFLE_WITH_WORKERS=true; fi
if [ $RIFFLE_WITH_WORKERS = true ]; then RIFFLE_MAX_STORE=${RIFFLE_MAX_STORE:-12884901888}; fi
# Most bytes of all streams together. The broker reserves the bytes of reports and of mixed messages within them. Keep
# this well below the free space of the disk: beyond this limit the broker refuses a write, but on a full disk it fails.
export RIFFLE_MAX_STORE=${RIFFLE_MAX_STORE:-8589934592}
# The numeric user inside the containers. It must own the private keys, which only their owner can read: if root
# deploys, the keys are given to user 65532; any other user deploys with containers that run as that user.
if [ "$(id -u)" = 0 ]; then default_uid=65532; else default_uid=$(id -u); fi
export RIFFLE_UID=${RIFFLE_UID:-$default_uid}

riffle=$RIFFLE_RUN/bin/riffle

# The compose files of the deployment, which has one broker or three.
files=(-f "$here/compose.yaml")
if [ -e "$RIFFLE_RUN/cluster" ]; then
    files+=(-f "$here/compose.cluster.yaml")
    export RIFFLE_BROKER_URL=tls://nats:4222,tls://nats2:4222,tls://nats3:4222 RIFFLE_REPLICAS=3
fi
if [ $RIFFLE_WITH_WORKERS = true ]; then files+=(-f "$here/compose.workers.yaml"); fi
if [ "$RIFFLE_INGRESS" = true ]; then files+=(-f "$here/compose.ingress.yaml"); fi
# Further compose files, separated by spaces, for example compose.prometheus.yaml or one of your own.
for file in ${RIFFLE_COMPOSE_EXTRA:-}; do files+=(-f "$file"); done

compose() { docker-compose "${files[@]}" "$@"; }

if ! command -v docker-compose >/dev/null; then
    compose() { docker compose "${files[@]}" "$@"; }
fi

# Copies the logs of all containers to files, one for each container and time: Docker removes a log with its container.
keep_logs() {
    local id name at
    at=$(date -u +%Y%m%dT%H%M%SZ)
    for id in $(docker ps -aq --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME"); do
        name=$(docker inspect -f '{{index .Config.Labels "com.docker.compose.service"}}' "$id")
        mkdir -p "$RIFFLE_RUN/logs"
        docker logs --timestamps "$id" >"$RIFFLE_RUN/logs/$name-$at.log" 2>&1 || true
    done
}

# Makes the containers' user the owner of files. Only root can do this, and only root needs it.
own() { if [ "$(id -u)" = 0 ]; then chown -R "$RIFFLE_UID:$RIFFLE_UID" "$@"; fi; }

# Makes the keys of workers from the roles', without the identities.
worker_keys() {
    local role
    for role in shuffler analyzer; do
        rm -rf "$RIFFLE_RUN/keys/worker-$role"
        "$riffle" keygen worker "$role" --keys "$RIFFLE_RUN/keys" --out "$RIFFLE_RUN/keys/worker-$role" >/dev/null
        chmod 711 "$RIFFLE_RUN/keys/worker-$role"
        own "$RIFFLE_RUN/keys/worker-$role/$role"
    done
}

# Writes the brokers' configuration from the keys.
render() {
    local names=(nats) name peer
    if [ -e "$RIFFLE_RUN/cluster" ]; then names=(nats nats2 nats3); fi
    mkdir -p "$RIFFLE_RUN/nats"
    for name in "${names[@]}"; do
        local peers=()
        for peer in "${names[@]}"; do [ "$peer" = "$name" ] || peers+=(--peer "$peer"); done
        "$riffle" broker config --keys "$RIFFLE_RUN/keys" --out "$RIFFLE_RUN/nats/$name.conf" --name "$name" \
            --max-store "$RIFFLE_MAX_STORE" "${peers[@]}" >/dev/null
    done
}

# wait_healthy SECONDS: waits until every container is healthy, or has ended with exit code 0. Needs only the Docker
# client.
wait_healthy() {
    local until=$((SECONDS + ${1:-120})) waiting id state state_format
    state_format='{{.Name}} {{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}} {{.State.ExitCode}}'
    while :; do
        waiting=
        for id in $(compose ps -q); do
            state=$(docker inspect -f "$state_format" "$id")
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
