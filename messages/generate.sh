#!/bin/sh
# Regenerates the Go of riffle.v1. The plugin's version is the one that go.mod names.
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN="$bin" go install google.golang.org/protobuf/cmd/protoc-gen-go
PATH="$bin:$PATH" protoc --go_out=. --go_opt=paths=source_relative riffle/v1/riffle.proto
