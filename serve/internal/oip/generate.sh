#!/usr/bin/env bash
# Makes the Go code of the protocol's messages and service from KServe's description, by
# Debian 12's protobuf-compiler (3.21.12) and the generators of these versions.
set -euo pipefail
cd "$(dirname "$0")"
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
GOFLAGS='' GOBIN=$tools go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
GOFLAGS='' GOBIN=$tools go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
package=Mgrpc_predict_v2.proto=github.com/weft-run/weft/serve/internal/oip
PATH=$tools:$PATH protoc --go_out=. --go_opt=paths=source_relative,$package \
	--go-grpc_out=. --go-grpc_opt=paths=source_relative,$package grpc_predict_v2.proto
