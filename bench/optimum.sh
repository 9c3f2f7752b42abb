#!/usr/bin/env bash
# How far assignments of many jobs are from the optimum: 800 small instances beside exhaustive
# search, and 200 of 8 to 60 jobs beside COIN-OR's solver (Debian package coinor-cbc) with 30 s
# of processor time each. Prints the worst gap of each, and lists apart what was not proved.
#
#   bench/optimum.sh [FILE]
#
# All cores work side by side. What the solver has done is kept in FILE (optimum.jsonl), so
# that the command can be ended at any time and goes on when it is given again. On a machine
# without Go it takes the test as bin/plan.test, made by
#   CGO_ENABLED=0 go test -c -tags cbc -o bin/plan.test ./cmd/weft/internal/plan
# SMALL, LARGE and SECONDS_EACH change the numbers.
set -euo pipefail
kept=$(realpath "${1:-optimum.jsonl}")
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
test=$PWD/bin/plan.test
if command -v go >/dev/null; then
	test=$scratch/plan.test
	CGO_ENABLED=0 go test -c -tags cbc -o "$test" ./cmd/weft/internal/plan
fi
cd plan
"$test" -test.run '^TestAssignExhaustive$' -test.v -test.timeout 0 -instances "${SMALL:-800}" | grep -vE '^(=== |PASS)'
"$test" -test.run '^TestAssignCBC$' -test.v -test.timeout 0 -cbc "${LARGE:-200}" -seconds "${SECONDS_EACH:-30}" -kept "$kept" | grep -vE '^ *(=== |PASS|--- PASS: .*/)'
