#!/usr/bin/env bash
# How the profiles of weft serve hold up here: hft at 2,500 requests a second and analytics at
# 6,000, of a reservoir with 1000 neurons, 64 channels and 100 bins, with binary tensors over loopback,
# beside what the simulator says of described machines. It carries a binary:
#
#   CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/weft ./cmd/weft
#   bench/serve.sh
#
# DEVICES names the devices (all there are), DURATION how long each rate is measured (20s), OUT the
# folder for figures (serve-hft.json, serve-analytics.json, serve-sim.json, and the table in
# serve.txt; ./out). The utilisation of GPUs is sampled by nvidia-smi where that is there. The
# whole takes about two minutes. SMALL=1 makes everything small, to see that the script works on a
# machine without a GPU.
set -uo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/bin/weft}
out=${OUT:-$PWD/out}
duration=${DURATION:-20s}
hft=2500 analytics=6000 bins=100 warm=3s
if [[ -n ${SMALL:-} ]]; then
	hft=40 analytics=80 bins=5 warm=0s duration=1s
fi
mkdir -p "$out"
devices=()
if [[ -n ${DEVICES:-} ]]; then
	devices=(--devices "$DEVICES")
fi

# sampled runs a command and notes the utilisation of GPUs meanwhile, in percent.
sampled() {
	local name=$1 pid=
	shift
	if command -v nvidia-smi >/dev/null; then
		nvidia-smi --query-gpu=utilization.gpu,power.draw --format=csv,noheader,nounits -lms 200 >"$out/serve-gpu-$name.csv" 2>/dev/null &
		pid=$!
	fi
	"$@"
	local status=$?
	if [[ -n $pid ]]; then
		kill "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
	fi
	return $status
}

failed=0
for profile in hft analytics; do
	echo "measuring $profile at ${!profile}/s for $duration" >&2
	sampled "$profile" timeout --foreground 300 "$weft" bench serve --profile "$profile" --rate "${!profile}" --duration "$duration" \
		--warm-up "$warm" --bins "$bins" "${devices[@]}" --json >"$out/serve-$profile.json" || failed=1
done
timeout --foreground 120 "$weft" bench serve --machine 3x5070,4x5070-ring,8x5070-hier --bins "$bins" --json >"$out/serve-sim.json" || failed=1

python3 - "$out" <<'PY' | tee "$out/serve.txt"
import json, os, sys
out = sys.argv[1]
rows = []
for name in ("hft", "analytics", "sim"):
    try:
        rows += json.load(open(f"{out}/serve-{name}.json"))
    except (OSError, ValueError):
        print(f"{name}: no figures")

def gpu(profile):
    """Mean utilisation by nvidia-smi, from the first sample at which GPUs were at work to the last."""
    try:
        xs = [float(l.split(",")[0]) for l in open(f"{out}/serve-gpu-{profile}.csv") if l.strip()]
    except (OSError, ValueError):
        return "-"
    work = [i for i, x in enumerate(xs) if x > 0]
    xs = xs[work[0]:work[-1] + 1] if work else []
    return f"{sum(xs) / len(xs):.0f} %" if xs else "0 %"

table = [("", "profile", "on", "rate", "answered/s", "p50 ms", "p95 ms", "p99 ms", "goal ms", "refused", "expired", "failed", "busy", "nvidia-smi", "batch")]
for r in rows:
    table.append((r["kind"], r["profile"], r["on"], f'{r["rate"]:.0f}', f'{r["answered_per_second"]:.0f}',
                  *(f"{r[k]:.3g}" for k in ("p50_ms", "p95_ms", "p99_ms", "goal_ms")),
                  *(f'{100 * r[k] / max(r["arrived"], 1):.2g} %' for k in ("refused", "expired", "failed")),
                  f'{100 * r["utilisation"]:.0f} %', gpu(r["profile"]) if r["kind"] == "measured" else "-", f'{r["mean_batch"]:.1f}'))
widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
for row in table:
    print("  ".join(c.ljust(w) if i < 3 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip())
if any(r.get("generator_bottleneck") for r in rows):
    print("The load generator was late by itself: latencies are as much its own as the server's.")
PY
exit $failed
