#!/usr/bin/env bash
# Proofs on an NVIDIA GPU, beside gnark on all cores of its machine, where there is no Go. It
# carries binaries, bench/table.sh and itself:
#
#   CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/weft ./cmd/weft
#   for p in msm ntt; do CGO_ENABLED=0 go test -c -ldflags '-s -w' -tags gpu -o bin/$p.test ./workload/zk/$p; done
#   CGO_ENABLED=0 go test -c -ldflags '-s -w' -tags gpu -o bin/zk.test ./workload/zk
#   bench/zk.sh
#
# First it is right: sums, transforms and proofs against gnark's. Then it is fast: a sum of 2^22
# points, a transform of 2^24 elements and a proof of 2^20 constraints, in turns with gnark, each
# with the time its multiply-adds take at the measured rate. Last, the same proof on other sets of
# devices, and with a worker killed in each stage. Everything has a limit of its own; the table
# comes last, and is in $OUT/zk.txt too ($OUT is ./out unless it is set). PARTS names the parts to
# run, of "right fast proof lost" (all). DEVICE=cpu and SMALL=1 try the script where there is no GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
source bench/table.sh
weft=$PWD/bin/weft device=${DEVICE:-cuda:0}
begin
versions

if [[ -n ${SMALL:-} ]]; then
	points=5000 log=12 constraints=700 middle=4096 small="330 700"
else
	points=$((1 << 22)) log=24 constraints=$((1 << 20)) middle=65536 small="9000 65536"
fi
parts=${PARTS:-right fast proof lost}
for p in $parts; do
	[[ " right fast proof lost " == *" $p "* ]] || { echo "zk.sh: no part $p; there are: right fast proof lost" >&2; exit 2; }
done
part() { [[ " $parts " == *" $1 "* ]]; }
pair=$device/2
[[ $device == cpu ]] && pair=cpu/2

# f(what, name) is a figure of the first row of that name, in ms where it is a time.
definitions='
def f(what, name, **where):
    r = [r for r in d if r["what"].startswith(what) and all(r.get(k) == v for k, v in where.items())][0]
    return 1e3 * r[name] if name.endswith("seconds") else r[name]
'

# bench measures for at most the given seconds and writes rows as JSON to the given file.
bench() {
	local limit=$1 file=$2
	shift 2
	timeout "$((limit + 10))" "$weft" bench zk --json --timeout "${limit}s" "$@" >"$file" 2>"$file.err" || tail -n 3 "$file.err"
}

if part right && [[ $device == cuda* ]]; then
	echo "== right"
	for p in msm ntt zk; do
		began=$SECONDS
		timeout 75 bin/$p.test -test.timeout 70s -test.v -test.run '^TestCUDA' >"$scratch/tests" 2>&1
		code=$?
		grep -v '^=== ' "$scratch/tests" | tail -n 12
		row "$p on the GPU against gnark" "pass" "$code" "== 0"
		note "  seconds" "$((SECONDS - began))"
	done
fi

if part fast; then
	echo "== fast"
	j=$scratch/parts
	bench 60 "$j" --devices "$device" --only rate,msm,ntt --points $points --log $log --repeat 5
	cp "$j" "$OUT/zk-parts.json"
	note "T multiply-adds of words/s" "$(get "$j" "f('multiply-adds', 'rate') / 1e12")"
	note "G products of scalars/s" "$(get "$j" "f('products', 'rate') / 1e9")"
	row "msm g1 2^22, ms with scalars from the host" "≤ 40" "$(get "$j" "f('msm', 'seconds')")" "<= 40"
	note "  kernels, ms" "$(get "$j" "f('msm', 'kernel_seconds')")"
	row "  times gnark" "≥ 15" "$(get "$j" "f('msm', 'speedup')")" ">= 15"
	note "  at the measured rate, ms" "$(get "$j" "f('msm', 'floor_seconds')")"
	note "  share" "$(get "$j" "f('msm', 'share')")"
	row "ntt 2^24 resident, ms of kernels" "≤ 7" "$(get "$j" "f('ntt', 'kernel_seconds')")" "<= 7"
	note "  all, ms" "$(get "$j" "f('ntt', 'seconds')")"
	row "  times gnark" "≥ 25" "$(get "$j" "f('ntt', 'speedup')")" ">= 25"
	note "  at the measured rate, ms" "$(get "$j" "f('ntt', 'floor_seconds')")"
	note "  share" "$(get "$j" "f('ntt', 'share')")"
	for n in $small; do
		j=$scratch/small
		bench 30 "$j" --devices "$device" --only groth16 --constraints "$n" --repeat 5
		note "groth16 of about $n from the solved circuit, ms" "$(get "$j" "f('groth16, from', 'seconds')")"
		note "  kernels, ms" "$(get "$j" "f('groth16, from', 'kernel_seconds')")"
		note "  gnark, ms" "$(get "$j" "f('groth16, from', 'gnark_seconds')")"
		bench 30 "$j" --devices "$device" --only groth16 --constraints "$n" --repeat 5 --streams 4
		note "  with four kernels in flight, ms" "$(get "$j" "f('groth16, from', 'seconds')")"
	done
	for n in 12 14 16 18 20; do
		[[ -n ${SMALL:-} ]] && continue
		j=$scratch/small
		bench 15 "$j" --devices "$device" --only msm --points $((1 << n)) --repeat 5
		note "msm g1 2^$n, ms (kernels)" "$(get "$j" "f('msm', 'seconds')") ($(get "$j" "f('msm', 'kernel_seconds')"))"
	done
fi

if part proof; then
	echo "== proof"
	j=$scratch/proof
	bench 90 "$j" --devices "$device" --only rate,groth16 --constraints $constraints --repeat 3 --sets "$pair" --sets "$device,cpu"
	cp "$j" "$OUT/zk-proof.json"
	note "constraints" "$(get "$j" "f('groth16, from', 'size')")"
	row "groth16 from the solved circuit, times gnark" "≥ 8" "$(get "$j" "f('groth16, from', 'speedup')")" ">= 8"
	note "  ms" "$(get "$j" "f('groth16, from', 'seconds')")"
	note "  kernels, ms" "$(get "$j" "f('groth16, from', 'kernel_seconds')")"
	note "  gnark, ms" "$(get "$j" "f('groth16, from', 'gnark_seconds')")"
	note "  at the measured rate, ms" "$(get "$j" "f('groth16, from', 'floor_seconds')")"
	note "  share" "$(get "$j" "f('groth16, from', 'share')")"
	note "groth16, all of it, ms" "$(get "$j" "f('groth16, all', 'seconds')")"
	note "  times gnark" "$(get "$j" "f('groth16, all', 'speedup')")"
	note "setup, ms" "$(get "$j" "f('setup', 'seconds')")"
	row "same bytes as gnark's on $device" "True" "$(get "$j" "int(f('groth16, from', 'same_bytes'))")" "== 1"
	for set in "$pair" "$device,cpu"; do
		row "same bytes as gnark's on $set" "True" "$(get "$j" "int(f('groth16, from', 'same_bytes', devices='$set'))")" "== 1"
		note "  ms from the solved circuit" "$(get "$j" "f('groth16, from', 'seconds', devices='$set')")"
	done
fi

if part lost; then
	echo "== lost"
	j=$scratch/lost
	bench 40 "$j" --devices "$device" --only groth16 --constraints $middle --repeat 1 --lose "$pair"
	cp "$j" "$OUT/zk-lost.json"
	for stage in "transforms" "quotient" "sums in G1" "sums in G2" "sum of the quotient"; do
		row "same bytes, a worker of $pair killed in $stage" "True" "$(get "$j" "int(f('groth16, from', 'hit', lost_in='$stage'))")" "== 1"
		note "  added ms" "$(get "$j" "f('groth16, from', 'added_seconds', lost_in='$stage')")"
	done
fi

table zk.txt
