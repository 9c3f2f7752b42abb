#!/usr/bin/env python3
"""How PyTorch's own products and convolutions scale over a machine's cores, beside
`weft bench scaling`: the same sizes, interleaved rounds, the median of the ratios
within a round. Usage: bench/cores.py [rounds]

Results of convolutions are new memory each time. So that it is not given back and
fetched anew page by page, which takes threads longer than one:

  MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=1000000000000 bench/cores.py
"""
import os
import statistics
import sys
import time

import torch

cores = os.cpu_count()
rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
small = bool(os.environ.get("SMALL"))
n, images = (256, 8) if small else (6080, 1152)
a, b, c = (torch.rand(n, n) for _ in range(3))
x, w = torch.rand(images, 64, 56, 56), torch.rand(64, 64, 3, 3)
work = {
    f"gemm {n}": lambda: torch.mm(a, b, out=c),
    f"conv {images} × 64 × 56 × 56": lambda: torch.conv2d(x, w, padding=1),
}


def took(f, threads):
    torch.set_num_threads(threads)
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


with torch.no_grad():
    for name, f in work.items():
        took(f, 1), took(f, cores)  # the first makes memory and threads
        pairs = [(took(f, 1), took(f, cores)) for _ in range(rounds)]
        one, all_ = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        efficiency = statistics.median(p[0] / p[1] for p in pairs) / cores
        print(f"PyTorch {name}: 1 thread {one:.3f} s, {cores} threads {all_:.3f} s, efficiency {100 * efficiency:.1f} %")
