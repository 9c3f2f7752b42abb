#!/usr/bin/env bash
# What becomes of work when worker processes are killed: how fast tasks go on elsewhere
# (weft bench failover), and what requests to a service under load notice of it (weft chaos serve).
# It carries a binary and needs no Go:
#
#   CGO_ENABLED=0 go build -ldflags '-s -w' -o bin/weft ./cmd/weft
#   bench/failover.sh
#   DEVICES=cuda:0/4 SERVE=cuda:0/2 STANDBY=cuda:0 bench/failover.sh
#
# DEVICES lists the devices of the first, by blanks (cpu/2 fake/3), SERVE those of the second
# (cpu/2), and STANDBY those that are served with a standby for each (cpu/1). KILLS (1000) and
# HANGS (50) are how many workers are killed and stopped, of which GPUs are only killed; LIMIT (1h)
# is the longest time for each of DEVICES, whose figures are of what was killed by then; RATE (500)
# is the requests a second, EVERY (3s) the mean time between kills, DURATION (60s) how long. OUT is
# the folder for figures (failover-*.json, serve-kill-*.json, and the table in failover.txt;
# ./out). The whole takes about ten minutes. SMALL=1 makes everything small, to see that the
# script works.
set -uo pipefail
cd "$(dirname "$0")/.."
weft=${WEFT:-$PWD/bin/weft}
out=${OUT:-$PWD/out}
kills=${KILLS:-1000} hangs=${HANGS:-50} rate=${RATE:-500} every=${EVERY:-3s} limit=${LIMIT:-1h} duration=${DURATION:-60s}
if [[ -n ${SMALL:-} ]]; then
	kills=5 hangs=1 rate=50 every=500ms duration=3s
fi
read -ra devices <<<"${DEVICES:-cpu/2 fake/3}"
read -ra served <<<"${SERVE:-cpu/2}"
read -ra standby <<<"${STANDBY:-cpu/1}"
mkdir -p "$out"
rm -f "$out"/failover-*.json "$out"/serve-kill-*.json
failed=0

# named writes devices as part of a file's name.
named() { tr -c 'a-z0-9\n' '-' <<<"$1"; }

for d in "${devices[@]}"; do
	echo "failover on $d: $kills kills" >&2
	stop=(--hang "$hangs")
	if [[ $d != cpu* && $d != fake* ]]; then
		stop=()
	fi
	# With --timeout the status says that some are missing, and the figures how many there are.
	"$weft" bench failover --kills "$kills" "${stop[@]}" --devices "$d" --timeout "$limit" --json >"$out/failover-$(named "$d").json" ||
		[[ -s $out/failover-$(named "$d").json ]] || failed=1
done

# serve_on kills workers of a service; further arguments are flags.
serve_on() {
	local d=$1 name=$2
	shift 2
	echo "service on $d at $rate/s for $duration: a kill every $every${*:+, $*}" >&2
	timeout --foreground 3600 "$weft" chaos serve --rate "$rate" --every "$every" --for "$duration" --devices "$d" "$@" --json >"$out/serve-kill-$name.json" || failed=1
}
for d in "${served[@]}"; do
	serve_on "$d" "$(named "$d")"
done
for d in "${standby[@]}"; do
	serve_on "$d" "$(named "$d")-standby" --standby
done

python3 - "$out" <<'PY' | tee "$out/failover.txt"
import glob, json, sys
out = sys.argv[1]
rows = []


def add(what, case, figure, unit, bar=None, above=False):
    met = "" if bar is None else ("met" if (figure >= bar if above else figure <= bar) else "SHORT")
    rows.append((case, what, f"{figure:.4g} {unit}".strip(), "" if bar is None else f"{'>=' if above else '<='} {bar:g}", met))


def load(pattern):
    for name in sorted(glob.glob(f"{out}/{pattern}")):
        try:
            yield json.load(open(name))
        except ValueError:
            rows.append((name.rsplit("/", 1)[1], "no figures", "", "", "SHORT"))


for table in load("failover-*.json"):
    for r in table:
        gpu = r["backend"] not in ("cpu", "fake")
        case = f"{r['case']} {r['backend']} x{r['devices']}, {r['kills']}"
        if r["case"] == "kill":
            add("detection p99", case, r["detect_ms"]["p99"], "ms", None if gpu else 5)
        else:
            add("detection max", case, r["detect_ms"]["max"], "ms", r["timeout_ms"] + 100)
        for q in ("p50", "p99"):
            add(f"failover {q}", case, r["failover_ms"][q], "ms", 10 if q == "p99" and r["case"] == "kill" and not gpu else None)
        add("added to the run p50", case, r["added_ms"]["p50"], "ms")
        add("device back p50", case, r["device_back_ms"]["p50"], "ms")
        add("tasks lost", case, r["lost"], "", 0)
        add("delivered twice", case, r["duplicated"], "", 0)
for a in load("serve-kill-*.json"):
    gpu = not a["devices"][0].startswith(("cpu", "fake"))
    case = f"service {','.join(a['devices'])}{' standby' if a['standby'] else ''}, {a['kills']} kills at {a['rate']:g}/s"
    add("requests", case, a["sent"], "")
    add("succeeded", case, 100 * a["success"], "%", 99.9, above=True)
    add("wrong answers", case, a["wrong"], "", 0)
    add("p99 of seconds with a kill", case, a["struck_ms"]["p99"], "ms", 300 if gpu else 50)
    add("worst such second's p99", case, a["struck_second_p99_ms"]["max"], "ms")
    add("p99 of the other seconds", case, a["quiet_ms"]["p99"], "ms")
    add("detection p50", case, a["detect_ms"]["p50"], "ms")
    add("detection to answer p50", case, a["answer_ms"]["p50"], "ms")
    add("device back p50", case, a["device_back_ms"]["p50"], "ms")
    if a.get("generator_bottleneck"):
        rows.append((case, "the load was late by itself: its latencies are its own too", "", "", ""))
head = ("case", "what", "figure", "bar", "")
width = [max(len(r[i]) for r in rows + [head]) for i in range(5)]
for r in [head] + rows:
    print("  ".join(c.ljust(w) for c, w in zip(r, width)).rstrip())
PY
exit $failed
