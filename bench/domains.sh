#!/usr/bin/env bash
# The domains on an NVIDIA GPU, where there is no Go. It needs Python with PyTorch, and carries
# binaries, bench/table.sh, bench/rates.py and itself:
#
#   CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/weft ./cmd/weft
#   for p in clifford relativity; do
#     CGO_ENABLED=0 go test -c -tags gpu -ldflags '-s -w' -o bin/$p.test ./workload/$p
#   done
#   bench/domains.sh
#
# First it is right: five packages agree with their references on the GPU, on parts of it, and
# on it beside the processors, and parts have the result of the whole. Then it is fast: products
# and boosts beside the bandwidth of a copy by a kernel, bodies beside the rate of fused multiply-adds,
# a localisation beside all cores, and steps of PageRank beside cuSPARSE's product through PyTorch with
# a graph of the same kind and size. bench/rates.py measures what weft does not, in the same run.
#
# Figures for resident data are of busy time: the time of tasks by the host's clock, from when what
# they wait for was seen to be complete until they were. That includes launches, some microseconds a
# task, and no copies from or to the host. Products and boosts are one task each, by the benchmarks of
# their packages; weft run copies them by parts, with a task for each part. Others are the median of
# three processes, of the last run of each.
# Everything has a limit of its own; the table comes last, and is in $OUT/domains.txt too
# ($OUT is ./out unless it is set). DEVICE=cpu and SMALL=1 try the script where there is no GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
source bench/table.sh
weft=$PWD/bin/weft device=${DEVICE:-cuda:0}
begin
versions

if [[ -n ${SMALL:-} ]]; then
	count=65536 bodies=2048 bodysteps=2 scale=12 k=5 n=15 memory=64MiB times=1
else
	count=16777216 bodies=65536 bodysteps=16 scale=20 k=10 n=30 memory=256MiB times=3
fi

# run runs a workload within a minute and writes its report as JSON to a file.
run() {
	local file=$1
	shift
	timeout 60 "$weft" run --json "$@" >"$file" 2>"$file.err" || tail -n 3 "$file.err"
}

# busy prints the median of the seconds that the device was busy with a workload, which is not checked.
busy() {
	local all=()
	for ((i = 0; i < times; i++)); do
		run "$scratch/busy" "$@" --devices "$device" --check=false >&2
		all+=("$(get "$scratch/busy" "d['devices'][0]['busy_seconds']")")
	done
	median "${all[@]}"
}

echo "== right"
if [[ $device == cuda* ]]; then
	ways=("$device" "$device/2" "$device/4" "$device,cpu")
else
	ways=("$device" "$device/2")
fi
right() {
	local name=$1 ok=0 first= same=1
	shift
	for way in "${ways[@]}"; do
		run "$scratch/check" "$@" --devices "$way" --repeat 2
		[[ $(get "$scratch/check" "int(d['checked'])") == 1 ]] && ok=$((ok + 1))
		[[ $way == *,* ]] && continue
		result=$(get "$scratch/check" "d['result']")
		[[ ${first:=$result} == "$result" ]] || same=0
	done
	row "$name agrees with its reference on ${ways[*]}" "${#ways[@]}" "$ok" "== ${#ways[@]}"
	row "  the same result on parts" 1 "$same" "== 1"
}
right "products of Cl(3,0)" clifford
right "products of Cl(1,3)" clifford --p 1 --q 3
right "products of Cl(4,1)" clifford --p 4 --q 1 --count 200000
right "rotors of Cl(3,0)" clifford --op rotor
right "derivatives" autodiff
right "PageRank" network
right "graph convolution" network --problem layers
right "orbits" relativity
right "boosts" relativity --problem boosts --count 100000
right "bodies" relativity --problem bodies
right "localisation" enumerative

echo "== fast"
timeout 60 "$weft" bench memory --json --devices "$device" --sizes "$memory" --repeat 5 >"$scratch/memory" 2>"$scratch/memory.err" || tail -n 3 "$scratch/memory.err"
bandwidth=$(get "$scratch/memory" "max(r['bytes_per_second'] for r in d if r['case'] == ('stream' if '$device'.startswith('cuda') else 'copy'))")
timeout 60 python3 bench/rates.py "$scale" >"$scratch/rates" 2>"$scratch/rates.err" || tail -n 1 "$scratch/rates.err"
note "bandwidth by a copy kernel, TB/s" "$(of 'b / 1e12' "b=$bandwidth")"
fma=$(get "$scratch/rates" "d['fma'] / 1e12") gemm=$(get "$scratch/rates" "d['gemm'] / 1e12")
note "float32 by fused multiply-adds, TFLOP/s" "$fma"
note "float32 by a product of matrices, TFLOP/s" "$gemm"

# share notes a bandwidth beside the copy kernel's: name, bytes, seconds.
share() {
	note "$1, TB/s" "$(of 'b / s / 1e12' "b=$2" "s=$3")"
	row "  % of the bandwidth" "≥ 80" "$(of '100 * b / s / w' "b=$2" "s=$3" "w=$bandwidth")" ">= 80"
}
if [[ $device == cuda* ]]; then
	# resident prints the seconds of 2^24 elements of some bytes each: package, benchmark, bytes.
	resident() {
		timeout 60 "bin/$1.test" -test.run '^$' -test.bench "^BenchmarkCUDA\$/^$2\$" -test.benchtime 1x 2>&1 |
			awk -v b="$3" '/TB\/s/ { printf "%.6g", b * 2^24 / $(NF - 1) / 1e12 }'
	}
	share "2^24 products of Cl(3,0), resident" $((96 << 24)) "$(resident clifford 'Cl.3,0.' 96)"
	share "2^24 boosts, resident" $((128 << 24)) "$(resident relativity boosts 128)"
else
	share "$count products of Cl(3,0)" $((96 * count)) "$(busy clifford --count $count)"
	share "$count boosts" $((128 * count)) "$(busy relativity --problem boosts --count $count)"
fi

s=$(busy relativity --problem bodies --count $bodies --steps $bodysteps)
rate=$(of '20 * n * n * steps / s / 1e12' n=$bodies steps=$bodysteps "s=$s")
note "$bodies bodies, TFLOP/s at 20 operations a pair" "$rate"
row "  % of the rate by fused multiply-adds" "≥ 40" "$(of '100 * r / f' "r=$rate" "f=$fma")" ">= 40"

for on in "$device" cpu; do
	run "$scratch/sums.$on" enumerative --k $k --n $n --devices "$on" --check=false
done
wall="median(r['seconds'] for r in d['runs'][1:])"
there=$(get "$scratch/sums.$device" "$wall") here=$(get "$scratch/sums.cpu" "$wall")
note "localisation on Gr($k,$n), seconds on $device" "$there"
note "  on $(nproc) cores" "$here"
row "  times the cores" "≥ 10" "$(of 'h / t' "h=$here" "t=$there")" ">= 10"

s=$(busy network --nodes $((1 << scale)))
step=$(of 's / 64 * 1e6' "s=$s")
note "PageRank of R-MAT of scale $scale in float64, µs a step" "$step"
for kind in "float32 int32" "float64 int32" "float32 int32 in order" "float64 int32 in order"; do
	us=$(get "$scratch/rates" "d['csr']['$kind'] * 1e6")
	note "  cuSPARSE's product, values and indices $kind, µs" "$us"
	if [[ $kind != *order ]]; then
		row "  times as fast" "≥ 1" "$(of 'u / s' "u=$us" "s=$step")" ">= 1"
	else
		note "  times as fast" "$(of 'u / s' "u=$us" "s=$step")"
	fi
done

table domains.txt
