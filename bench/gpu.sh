#!/usr/bin/env bash
# All figures of an NVIDIA GPU, beside their bars and their peers, on a machine that
# has neither Go nor a toolkit. It carries binaries, bench/table.sh, bench/ptx.py and itself:
#
#   CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/weft ./cmd/weft
#   CGO_ENABLED=0 go test -c -ldflags '-s -w' -tags gpu -o bin/cuda.test ./internal/backend/cuda
#   CGO_ENABLED=0 go test -c -ldflags '-s -w' -tags gpu -o bin/proc.test ./internal/backend/proc
#   bench/gpu.sh [part ...]
#
# Parts, all of them when none is named:
#
#   conformance  the backend's tests and the suite of all backends, in process and in workers
#   check        every workload against its reference, on cuda:0, cuda:0/2, cuda:0/4 and with cpu
#   backend      the backend by itself: launches, round trips, copies, products
#   launch       tasks through engine and worker; round trips of 4 KB
#   copies       host and device, through a worker; within the device
#   gemm         products of resident matrices beside PyTorch; two workers beside two processes
#   kernels      tropical, life, sum, conv: through weft, and alone beside PyTorch
#   merkle       a tree of leaves in host memory, beside all cores
#   faults       kernels that write to an illegal address
#   chaos        workers of the GPU killed, stopped, slowed and corrupted
#
# Every part has a limit of its own and goes on after a failure; the whole takes less
# than ten minutes on an H200. Everything printed is also in $OUT/gpu.log, and the
# table that comes last in $OUT/table.txt ($OUT is ./out unless it is set). SMALL=1
# makes everything small, to see that the script works where there is only the
# stand-in of internal/backend/cuda/testdata.
set -uo pipefail
cd "$(dirname "$0")/.."
source bench/table.sh
weft=$PWD/bin/weft

if [[ -n ${SMALL:-} ]]; then
	tasks=2000 size=64 buffers=1MiB,16MiB large=$((16 << 20)) resident=64MiB faults=5 standbys=2 repeat=2
	product=96 tropical=64 life=256 elements=65536 image=16 leaves=4096
else
	tasks=100000 size=8192 buffers=256MiB,1GiB large=$((1 << 30)) resident=10GiB faults=100 standbys=10 repeat=10
	product=1024 tropical=4096 life=16384 elements=$((1 << 28)) image=128 leaves=$((1 << 24))
fi

# limit runs a command for so many seconds at most. It ends with its part, too.
limit() { timeout --foreground "$@"; }

conformance() {
	(cd internal/backend/cuda && limit 120 ../../../bin/cuda.test -test.timeout 110s >"$scratch/cuda" 2>&1; echo $? >"$scratch/cuda.rc") &
	(cd internal/backend/proc && limit 150 ../../../bin/proc.test -test.timeout 140s -test.run '^TestCUDA(Suite|Siblings)' >"$scratch/proc" 2>&1; echo $? >"$scratch/proc.rc") &
	wait
	local name
	for name in cuda proc; do
		tail -n 40 "$scratch/$name"
		row "conformance, $name" "passes" "$(cat "$scratch/$name.rc")" "== 0"
	done
}

# checked runs every workload on some devices and notes those that are wrong.
checked() {
	local devices=$1 file=$2 job began
	for job in "gemm --size $product" "tropical --size 512" "conv --batch 8" "conv --batch 8 --split rows" "reduce --n 4000000" "merkle --leaves 300000" \
		"automata --rows 2048 --cols 2048 --steps 40" "landscape --residues 80" "reservoir --batch 64 --steps 20" \
		"reservoir --batch 64 --steps 20 --split neurons" "reservoir --batch 64 --steps 20 --split rows" \
		"reservoir --batch 64 --steps 20 --strategy eager" "tropical-net" "fusion --records 65536" "fusion --records 65536 --bind" "fisher --points 2000" \
		"enumerative --k 6 --n 20" "enumerative --problem hypersurface --k 4 --n 18" "clifford --count 200000" "clifford --count 200000 --op rotor --p 4 --q 1" \
		"clifford --count 200000 --op normalize --p 1 --q 3" "relativity --count 1000" "relativity --problem boosts --count 200000" "relativity --problem bodies" \
		"network" "network --problem layers" "network --problem closeness" "network --problem medoids" \
		"autodiff --count 200000" "autodiff --problem helmholtz --dims 12 --count 20000" "autodiff --expr sin(x*y)+exp(z) --count 200000 --generate" \
		"bregman --pairs 200000" "bregman --pairs 200000 --function burg --dim 3" "relativity --problem light --count 1000" "enumerative --problem curves" "enumerative --problem schubert" \
		"elastic --structure 1UBI --network anm" "phase --structure 1UBI" "ntt --log 16" "ntt --log 13 --inverse --coset" "msm --size 5000" "msm --size 2^15 --resident" \
		"msm --size 3000 --group g2" "zk --constraints 9000 --verify-each" "zk --constraints 3000 --circuit merkle --verify-each"; do
		began=$SECONDS
		# shellcheck disable=SC2086
		if limit 40 "$weft" run $job --devices "$devices" --repeat 2 --check --calibrate=false >"$scratch/run.$file" 2>&1; then
			echo "ok    $((SECONDS - began)) s  $devices  $job" | tee -a "$scratch/check.$file"
		else
			echo "WRONG $((SECONDS - began)) s  $devices  $job: $(tail -n 1 "$scratch/run.$file")" | tee -a "$scratch/check.$file"
		fi
	done
}

check() {
	local devices i=0
	for devices in cuda:0 cuda:0/2 cuda:0/4 cuda:0,cpu; do
		i=$((i + 1))
		checked "$devices" $i &
	done
	wait
	i=0
	for devices in cuda:0 cuda:0/2 cuda:0/4 cuda:0,cpu; do
		i=$((i + 1))
		row "workloads wrong on $devices" "0" "$(grep -c WRONG "$scratch/check.$i")" "== 0"
	done
}

backend() {
	local bench=(limit 60 bin/cuda.test -test.run '^$')
	"${bench[@]}" -test.bench 'Launch|RoundTrip' -test.count 5 -test.benchtime 0.2s | grep ^Benchmark
	[[ -n ${SMALL:-} ]] && return
	"${bench[@]}" -test.bench 'Copy' -test.count 2 -test.benchtime 0.2s | grep ^Benchmark
	"${bench[@]}" -test.bench 'GEMM' -test.count 2 -test.benchtime 0.5s | grep ^Benchmark
}

launch() {
	local j=$scratch/overhead
	limit 60 "$weft" bench overhead --devices cuda:0 --tasks $tasks --repeat 5 --json >"$j" || return
	cat "$j"
	local alone="[r for r in d if r['case'] == 'independent' and not r['trace']][0]"
	row "tasks/s through engine and worker" "≥ 250,000" "$(get "$j" "round(1e6 / $alone['median_us_per_task'])")" ">= 250000" "best $(get "$j" "round(1e6 / $alone['us_per_task'])")"
	row "round trip of 4 KB, p50, µs" "≤ 30" "$(get "$j" "[r for r in d if r['case'] == 'round trip'][0]['median_us_per_task']")" "<= 30"
	row "round trip of 4 KB, p99, µs" "≤ 60" "$(get "$j" "[r for r in d if r['case'] == 'round trip'][0]['p99_us']")" "<= 60"
}

copies() {
	local j=$scratch/memory
	limit 60 "$weft" bench memory --devices cuda:0 --sizes $buffers --repeat 5 --json >"$j" || return
	cat "$j"
	rate() { get "$j" "max(r['bytes_per_second'] for r in d if r['case'] == '$1') / 1e9"; }
	peak() { get "$j" "max(r.get('peak_bytes_per_second', 0) for r in d if r['case'] == '$1') / 1e9"; }
	local way
	for way in in out; do
		row "copy $way, memory of the arena, GB/s" "≥ 50" "$(rate "$way, shared")" ">= 50" "built for $(peak "$way, shared")"
		row "copy $way, plain slice, GB/s" "≥ 20" "$(rate "$way")" ">= 20"
	done
	row "copy of $((large >> 20)) MiB within, kernel, GB/s" "≥ 3,825" "$(get "$j" "[r['bytes_per_second'] for r in d if r['case'] == 'stream' and r['bytes'] == $large][0] / 1e9")" ">= 3825" "built for $(peak stream)"
	row "copy of $((large >> 20)) MiB within, engine, GB/s" "" "$(get "$j" "[r['bytes_per_second'] for r in d if r['case'] == 'within' and r['bytes'] == $large][0] / 1e9")" "> 0"
}

gemm() {
	local j=$scratch/product p ours best theirs=
	limit 90 "$weft" bench product --devices cuda:0 --size $size --repeat $repeat --precision fp32,tf32,bf16,fp64 --json >"$j" || return
	cat "$j"
	for p in fp32 tf32 bf16 fp64; do
		: >"$scratch/peer"
		[[ -n $torch ]] && limit 60 python3 "$scratch/peer.py" "$p" "$size" 0 0 >"$scratch/peer"
		cat "$scratch/peer"
		ours=$(get "$j" "[r for r in d if r['precision'] == '$p'][0]['tflops']")
		best=$(get "$j" "[r for r in d if r['precision'] == '$p'][0]['best_tflops']")
		theirs=$(get "$scratch/peer" "d['median']")
		if [[ $p == fp32 || $p == tf32 ]]; then
			row "product $size, $p, % of PyTorch" "≥ 97" "$(percent "$ours" "$theirs")" ">= 97" "$ours of $theirs TFLOP/s, best $best of $(get "$scratch/peer" "d['best']")"
		else
			row "product $size, $p, TFLOP/s" "" "$ours" "> 0" "PyTorch ${theirs:--}"
		fi
	done
	limit 60 "$weft" bench product --devices cuda:0/2 --size $size --repeat $repeat --precision fp32 --json >"$j.2" || return
	cat "$j.2"
	theirs=
	if [[ -n $torch ]]; then
		local begin=$(($(date +%s) + 12))
		limit 60 python3 "$scratch/peer.py" fp32 "$size" $begin $((begin + 6)) >"$scratch/one" &
		limit 60 python3 "$scratch/peer.py" fp32 "$size" $begin $((begin + 6)) >"$scratch/two"
		wait
		cat "$scratch/one" "$scratch/two"
		theirs=$(awk -v a="$(get "$scratch/one" "d['median']")" -v b="$(get "$scratch/two" "d['median']")" 'BEGIN { if (a && b) print a + b }')
	fi
	ours=$(get "$j.2" "d[0]['tflops']")
	row "product $size, fp32, cuda:0/2, % of two processes" "≥ 95" "$(percent "$ours" "$theirs")" ">= 95" "$ours of ${theirs:--} TFLOP/s"
}

# busy prints the milliseconds the devices' kernels took in the last of several
# runs; all of that run's in "took".
busy() {
	limit 60 "$weft" run "$@" --devices cuda:0 --repeat 12 --json --check=false >"$scratch/run" || return
	get "$scratch/run" "1e3 * d['devices'][0]['busy_seconds']"
}
took() { get "$scratch/run" "1e3 * median(r['seconds'] for r in d['runs'][2:])"; }

kernels() {
	local ms alone=$scratch/alone
	: >"$alone"
	if [[ -n $torch ]]; then
		ROWS=$alone limit 100 python3 bench/ptx.py tropical automata reduce conv
	fi
	by() { awk -F '\t' -v what="$1" 'index($1, what) == 1 { print "alone " $2 " " $3 (($5 != "") ? ", " $5 : ""); exit }' "$alone"; }
	ms=$(busy tropical --size $tropical)
	row "tropical product $tropical, ms" "≤ 8" "$ms" "<= 8" "$(by tropical_rows_small\ $tropical); whole run $(took)"
	ms=$(busy automata --rows $life --cols $life --steps 100)
	row "life ${life}², 100 steps, Gcell/s" "≥ 5,000" "$(ratio "$(awk -v n=$life 'BEGIN { print n * n * 100 / 1e6 }')" "$ms")" ">= 5000" "$(by life); whole run $(took) ms"
	ms=$(busy reduce --n $elements)
	row "sum of $((elements >> 18)) MiB, GB/s" "≥ 3,825" "$(ratio "$(awk -v n=$elements 'BEGIN { print 4 * n / 1e6 }')" "$ms")" ">= 3825" "$(by sum)"
	ms=$(busy conv --batch 32 --channels 64 --height $image --width $image --filters 64)
	local cudnn
	cudnn=$(awk -F '\t' '$1 ~ /^conv 32×64×128×128/ && match($5, /[0-9.]+ ms/) { print substr($5, RSTART, RLENGTH - 3); exit }' "$alone")
	row "conv 32×64×$image×$image, % of cuDNN" "≥ 90" "$(percent "$cudnn" "$ms")" ">= 90" "$ms of ${cudnn:--} ms, $(by "conv 32×64×128")"
}

merkle() {
	local devices
	for devices in cuda:0 cpu cuda:0,cpu; do
		limit 60 "$weft" run merkle --leaves $leaves --devices $devices --repeat 10 --json --check="$([[ $devices == cpu ]] && echo false || echo true)" >"$scratch/merkle.$devices" || return
	done
	cat "$scratch/merkle.cuda:0"
	local gpu cpu both
	took() { get "$scratch/merkle.$1" "1e3 * median(r['seconds'] for r in d['runs'][3:])"; }
	gpu=$(took cuda:0) cpu=$(took cpu) both=$(took cuda:0,cpu)
	row "merkle of $leaves leaves in host memory, × all cores" "≥ 10" "$(ratio "$cpu" "$gpu")" ">= 10" "$gpu ms, $(nproc) cores $cpu ms"
	row "the same on the GPU and all cores together" "" "$(ratio "$cpu" "$both")" ">= 0" "$both ms"
}

faults() {
	local j=$scratch/faults c most
	limit 200 "$weft" bench faults --devices cuda:0 --resident $resident --arena 8GiB --faults $faults --standbys $standbys --json >"$j" || return
	cat "$j"
	for c in "standby 250" "restart 1000"; do
		read -r c most <<<"$c"
		f() { get "$j" "[r for r in d if r['case'] == '$c'][0]['$1']"; }
		row "fault, $c: serves again after, ms" "≤ $most" "$(f back_max_ms)" "<= $most" "median $(f back_ms), error known after $(f reported_ms)"
		row "fault, $c: sent again, MB" "0" "$(get "$j" "[max(r['sent_bytes'] - 2e6 * r['faults'], 0) / 1e6 for r in d if r['case'] == '$c'][0]")" "<= 0" "$(get "$j" "[r['resident_bytes'] for r in d if r['case'] == '$c'][0] / 2**30") GiB resident, checked"
		row "fault, $c: memory grown over $(f faults), MB" "≤ 32" "$(get "$j" "[(r['rss_after_bytes'] - r['rss_before_bytes']) / 1e6 for r in d if r['case'] == '$c'][0]")" "<= 32" "of $(get "$j" "[r['rss_after_bytes'] for r in d if r['case'] == '$c'][0] / 1e6") MB"
		row "fault, $c: descriptors grown" "≤ 5" "$(get "$j" "[r['descriptors_after'] - r['descriptors_before'] for r in d if r['case'] == '$c'][0]")" "<= 5"
	done
}

# Workers of the GPU are killed, stopped, slowed and corrupted, alone and beside cores.
chaos() {
	local j=$scratch/chaos devices
	for devices in cuda:0 cuda:0/2,cpu/2; do
		limit 75 "$weft" chaos merkle --leaves 262144 --devices $devices --for 20s --seed 7 --json >"$j" || return
		cat "$j"
		row "chaos on $devices: rounds with a wrong root, or with something left after them" "0" "$(get "$j" "d['wrong'] + d['left']")" "<= 0" "$(get "$j" "d['right']") of $(get "$j" "d['rounds']") right, $(get "$j" "d['errors']") errors"
		row "chaos on $devices: devices lost and back" "≥ 1" "$(get "$j" "min(d['losses'], d['recoveries'])")" ">= 1" "$(get "$j" "d['losses']") losses, $(get "$j" "d['replays']") replays"
	done
}

# Parts and the seconds each may take.
parts=(conformance check backend launch copies gemm kernels merkle faults chaos)
declare -A seconds=([conformance]=160 [check]=200 [backend]=60 [launch]=60 [copies]=60 [gemm]=120 [kernels]=160 [merkle]=60 [faults]=200 [chaos]=160)

if [[ ${1:-} == --part ]]; then # one part in a process of its own, started below
	"$2"
	exit
fi

(($# > 0)) || set -- "${parts[@]}"
for part in "$@"; do
	if [[ -z ${seconds[$part]:-} ]]; then
		echo "gpu.sh: no part $part; there are: ${parts[*]}" >&2
		exit 2
	fi
done
begin
log=$OUT/gpu.log
cat >"$scratch/peer.py" <<'PY'
"""Has PyTorch multiply as weft bench product does: such numbers, bursts of ten after
four for warming up, ten of them or as many as fit between two times."""
import json, statistics, sys, time
import torch
precision, n, begin, end = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
kind = {"bf16": torch.bfloat16, "fp64": torch.float64}.get(precision, torch.float32)
a, b = (torch.rand(n, n, device="cuda").add(1).to(kind) for _ in range(2))
c = torch.empty(n, n, device="cuda", dtype=kind)
def burst():
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(10):
        torch.matmul(a, b, out=c)
    torch.cuda.synchronize()
    return 20 * n**3 / (time.perf_counter() - t) / 1e12
for _ in range(4):
    burst()
rates = []
if begin:
    time.sleep(max(begin - time.time(), 0))
    while time.time() < end:
        rates.append(burst())
else:
    rates = [burst() for _ in range(10)]
print(json.dumps({"median": statistics.median(rates), "best": max(rates)}))
PY
torch=
python3 -c 'import torch; torch.zeros(1, device="cuda")' 2>/dev/null && torch=yes
export scratch rows torch PYTHONUNBUFFERED=1
{
	versions
	echo "PyTorch: ${torch:-no}; $(date -u)"
} | tee "$log"
for part in "$@"; do
	began=$SECONDS
	echo "== $part" | tee -a "$log"
	timeout -k 5 "${seconds[$part]}" bash bench/gpu.sh --part "$part" 2>&1 | tee -a "$log"
	code=${PIPESTATUS[0]}
	echo "   $((SECONDS - began)) s, status $code" | tee -a "$log"
	((code == 0)) || row "part $part" "status 0" "$code" "== 0"
done
table table.txt | tee -a "$log"
