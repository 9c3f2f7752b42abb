#!/usr/bin/env bash
# What checkpoints cost a long computation (weft bench checkpoint): pairs of runs with and without,
# of a minute each, with 1 GiB of state that all changes and a checkpoint every 10 s. It carries a
# binary and needs no Go:
#
#   CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/weft ./cmd/weft
#   bench/checkpoint.sh
#   SMALL=1 bench/checkpoint.sh
#
# DEVICES are those of the runs (all), PAIRS (5) how many pairs, SIZE (1GiB) the state, EVERY (10s)
# the time between checkpoints, LENGTH (1m) that of a run, BAR (6) the percent that the median of
# the pairs' overheads may be, DIR the folder in which checkpoints are written and removed again
# (that of temporary files), OUT the folder for figures (checkpoint.json, checkpoint.txt; ./out).
# It takes about eleven minutes and needs 5 times SIZE of memory, 3 times of disk. SMALL=1 takes
# about half a minute: it shows the processor time per GiB, which a busy machine spoils least.
set -uo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/bin/weft}
out=${OUT:-$PWD/out}
pairs=${PAIRS:-5} size=${SIZE:-1GiB} every=${EVERY:-10s} length=${LENGTH:-1m} bar=${BAR:-6}
if [[ -n ${SMALL:-} ]]; then
	pairs=2 size=256MiB every=2s length=6s
fi
mkdir -p "$out"
args=(--repeat "$pairs" --size "$size" --every "$every" --length "$length")
if [[ -n ${DIR:-} ]]; then args+=(--dir "$DIR"); fi
if [[ -n ${DEVICES:-} ]]; then args+=(--devices "$DEVICES"); fi
echo "checkpoints: $pairs pairs of runs of $length, $size every $every" >&2
"$weft" bench checkpoint "${args[@]}" --json >"$out/checkpoint.json" || exit 1
python3 - "$out/checkpoint.json" "$bar" <<'PY' | tee "$out/checkpoint.txt"
import json, sys
rows, bar = json.load(open(sys.argv[1])), float(sys.argv[2])
for r in rows:
    print(f"{r['machine']}, {r['cores']} cores; {r['state_bytes'] / 2**30:g} GiB every {r['every_seconds']:g} s, {r['steps']} steps a run")
    print("pair  first    without  others     with  others  overhead  CPU/GiB")
    for i, p in enumerate(r["each"]):
        first = "with" if p["kept_first"] else "without"
        print(f"{i + 1:4}  {first:7} {p['plain_seconds']:7.2f}s {p['plain_cores_used_by_others']:7.2f} {p['kept_seconds']:7.2f}s {p['kept_cores_used_by_others']:7.2f} {100 * p['overhead']:8.2f}% {p['cpu_seconds_per_gib']:7.3f}s")
    met = "met" if 100 * r["overhead"] < bar else "SHORT"
    print(f"median overhead {100 * r['overhead']:.2f} % of {r['pairs']} pairs, < {bar:g}: {met}")
    print(f"processor time of a checkpoint, of all cores between two: {100 * r['cpu_share']:.2f} %")
    print(f"{r['checkpoints']:.1f} checkpoints a run, held {1e3 * r['held_seconds']:.0f} ms, on the disk after {r['took_seconds']:.2f} s; others used {r['cores_used_by_others']:.2f} cores")
PY
