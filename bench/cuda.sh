#!/usr/bin/env bash
# The cuda backend on a machine with a GPU, which needs neither Go nor a toolkit:
#
#   CGO_ENABLED=0 go test -c -tags gpu -o bin/cuda/cuda.test ./backend/cuda
#   bench/cuda.sh bin/cuda/cuda.test
#
# Runs the backend's tests on the GPU, then its benchmarks, ten times each, and
# PyTorch's products beside ours where python3 has it.
set -uo pipefail
test=$1
nvidia-smi --query-gpu=name,driver_version,power.limit --format=csv,noheader
"$test" | tail -n 5
"$test" -test.run '^$' -test.bench 'Launch|RoundTrip' -test.count 10 -test.benchtime 0.2s | grep ^Benchmark
"$test" -test.run '^$' -test.bench 'Copy' -test.count 3 -test.benchtime 0.2s | grep ^Benchmark
peer() {
	python3 - <<'PY'
import time, torch
n = 8192
for name, kind, tf32 in (("fp32", torch.float32, False), ("tf32", torch.float32, True), ("bf16", torch.bfloat16, False)):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a, b = (torch.rand(n, n, device="cuda").to(kind) + 1 for _ in range(2))
    c = torch.empty(n, n, device="cuda", dtype=kind)
    for _ in range(3):
        torch.matmul(a, b, out=c)
    best = 0
    for _ in range(10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(10):
            torch.matmul(a, b, out=c)
        torch.cuda.synchronize()
        best = max(best, 20 * n**3 / (time.perf_counter() - begin) / 1e12)
    print(f"PyTorch {name} {best:.1f} TFLOP/s")
PY
}
"$test" -test.run '^$' -test.bench 'GEMM' -test.count 3 -test.benchtime 0.5s | grep ^Benchmark
python3 -c 'import torch' 2>/dev/null && peer
