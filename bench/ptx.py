#!/usr/bin/env python3
"""Checks and times the PTX kernels of the workloads on this machine's GPU.

    bench/ptx.py [name ...]

Needs an NVIDIA GPU and PyTorch, neither Go nor CUDA's toolkit. Every kernel is
loaded as the CUDA backend loads it, run on random inputs with poisoned outputs,
compared with a reference that shares no code with it, and timed with events,
data resident, in the same process as its peer. Class X kernels must agree in
every bit. The table at the end has the medians beside the bars of weft.
"""
import ctypes
import gzip
import hashlib
import math
import os
import statistics
import struct
import sys

import numpy as np
import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "workload")
ALL = -1  # the whole of a grid's dimension, as graph.All

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{name}: {text.value.decode() if text.value else code}")


class Module:
    """A PTX file, which is compressed in the tree, compiled by the driver."""

    def __init__(self, path):
        torch.zeros(1, device="cuda")  # makes the primary context current
        with gzip.open(os.path.join(ROOT, path + ".gz"), "rb") as f:
            source = f.read() + b"\0"
        self.handle = ctypes.c_void_p()
        log = ctypes.create_string_buffer(1 << 16)
        keys = (ctypes.c_int * 2)(5, 6)  # the error log and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        code = cuda.cuModuleLoadDataEx(ctypes.byref(self.handle), source, 2, keys, values)
        if code:
            raise RuntimeError(f"{path}: error {code}: {log.value.decode()}")

    def kernel(self, entry, per=(1,), block=1, shared=0):
        return Kernel(self, entry, per, block, shared)


class Kernel:
    """An entry of a module, launched as graph.Impl.Shape says."""

    def __init__(self, module, entry, per, block, shared):
        self.entry, self.per, self.block, self.shared = entry, per, block, shared
        self.handle = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(self.handle), module.handle, entry.encode())

    def attribute(self, which):
        value = ctypes.c_int()
        call("cuFuncGetAttribute", ctypes.byref(value), which, self.handle)
        return value.value

    def resources(self):
        return f"{self.attribute(4)} registers, {self.attribute(1)} shared, {self.attribute(3)} local bytes"

    def __call__(self, grid, buffers, params):
        shape = [1, 1, 1]
        for d, n in enumerate(grid):
            per = self.per[d] if d < len(self.per) else 1
            shape[d] = 1 if per == ALL else (n + per - 1) // per
        held = [ctypes.c_uint64(b.data_ptr()) for b in buffers] + [ctypes.create_string_buffer(params, len(params))]
        pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(h) for h in held])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        call("cuLaunchKernel", self.handle, *shape, self.block, 1, 1, self.shared, stream, pointers, None)


def words(*values):
    return struct.pack(f"<{len(values)}I", *values)


def random(*shape, dtype=torch.float32):
    return torch.rand(*shape, device="cuda", dtype=dtype) * 2 - 1


def poisoned(*shape, dtype=torch.float32):
    """An output nobody has written."""
    bad = float("nan") if dtype.is_floating_point else 0x55
    return torch.full(shape, bad, device="cuda", dtype=dtype)


def timed(run, times=15, warm=3):
    """The median time of a run in milliseconds."""
    for _ in range(warm):
        run()
    spans = []
    for _ in range(times):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        run()
        b.record()
        b.synchronize()
        spans.append(a.elapsed_time(b))
    return statistics.median(spans)


def same(got, want, what):
    """Fails unless the bits are the same."""
    got, want = np.ascontiguousarray(got), np.ascontiguousarray(want)
    if got.tobytes() != want.tobytes():
        kind = {4: np.uint32, 8: np.uint64, 1: np.uint8}[got.dtype.itemsize]
        bad = np.flatnonzero(got.reshape(-1).view(kind) != want.reshape(-1).view(kind))
        raise AssertionError(f"{what}: {len(bad)} of {got.size} differ, first at {bad[0]}: "
                             f"{got.reshape(-1)[bad[0]]!r}, want {want.reshape(-1)[bad[0]]!r}")


def close(got, want, limit, what):
    error = float(torch.linalg.vector_norm(got.double() - want) / torch.linalg.vector_norm(want))
    if not error <= limit:
        raise AssertionError(f"{what}: relative error {error:.2e}, at most {limit:.0e} is right")


rows = []


def record(what, ms, rate, bar, peer=""):
    rows.append((what, f"{ms:.3f} ms", rate, bar, peer))
    print("  ", *rows[-1], flush=True)


def fused(a, b):
    """The product by chains of fused multiply-adds in float32. Products are exact
    in extended precision; only the sum is rounded twice, hardly ever visibly."""
    acc = np.zeros((a.shape[0], b.shape[1]), np.float32)
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    for p in range(a.shape[1]):
        acc = (acc + a[:, p, None] * b[None, p]).astype(np.float32)
    return acc


def products(name):
    """The variants of a product's kernel."""
    m = Module(f"{name}/{name}.ptx")
    kernels = [m.kernel(name + "_rows", (128, 128), 256), m.kernel(name + "_rows_small", (64, 64), 64)]
    for k in kernels:
        print("  ", k.entry, k.resources())
    return kernels


def gemm():
    kernels = products("gemm")
    for k in kernels:
        for m, d, n in [(1, 1, 1), (129, 67, 131), (256, 64, 128), (300, 40, 260)]:
            a, b, c = random(m, d), random(d, n), poisoned(m, n)
            k((m, n), (a, b, c), words(m, d, n))
            same(c.cpu().numpy(), fused(a.cpu().numpy(), b.cpu().numpy()), f"{k.entry} {m}×{d}×{n}")
    torch.backends.cuda.matmul.allow_tf32 = False
    for n in (1024, 4096, 8192):
        a, b = random(n, n), random(n, n)
        want, peer = a.double() @ b.double(), timed(lambda: torch.mm(a, b), 7)
        for k in kernels:
            c = poisoned(n, n)
            run = lambda: k((n, n), (a, b, c), words(n, n, n))
            run()
            close(c, want, 1e-5, k.entry)
            ms = timed(run, 7)
            record(f"{k.entry} {n}", ms, f"{2e-9 * n**3 / ms:.1f} TFLOP/s", "",
                   f"cuBLAS {2e-9 * n**3 / peer:.1f}: {100 * peer / ms:.0f} %")


def tropical():
    kernels = products("tropical")
    for m, d, n in [(1, 1, 1), (129, 67, 131), (256, 64, 128), (3, 300, 500)]:
        for zeros in (False, True):
            a, b = random(m, d), random(d, n)
            if zeros:  # of both signs, infinities and what is not a number
                a, b = -a.round().abs(), -b.round().abs()
                b[torch.rand_like(b) < 0.3] = 0.0
                a[torch.rand_like(a) < 0.1] = float("nan")
                a[torch.rand_like(a) < 0.1] = float("-inf")
            x, y = a.cpu().numpy(), b.cpu().numpy()
            want = np.full((m, n), -np.inf, np.float32)
            for p in range(d):
                s = x[:, p, None] + y[None, p]
                want = np.where(s > want, s, want)
            for k in kernels:
                c = poisoned(m, n)
                k((m, n), (a, b, c), words(m, d, n))
                same(c.cpu().numpy(), want, f"{k.entry} {m}×{d}×{n}")
    for n in (1024, 4096):
        a, b = random(n, n), random(n, n)
        for k in kernels:
            c = poisoned(n, n)
            run = lambda: k((n, n), (a, b, c), words(n, n, n))
            run()
            for row in range(0, n, 61):
                same(c[row].cpu().numpy(), (a[row, :, None] + b).amax(0).cpu().numpy(), f"{k.entry} row {row}")
            ms = timed(run)
            record(f"{k.entry} {n}", ms, f"{2e-9 * n**3 / ms:.1f} Top/s", "≤ 8 ms" if n == 4096 else "")


def life(grid):
    """One generation of a torus of bytes."""
    around = sum(np.roll(np.roll(grid, y, 0), x, 1) for y in (-1, 0, 1) for x in (-1, 0, 1))
    return ((around == 3) | ((around == 4) & (grid == 1))).astype(np.uint8)


def automata():
    m = Module("automata/automata.ptx")
    block, deep = m.kernel("automata_block", (30, 256), 64), m.kernel("automata_deep", (30, 64), 32)
    print("  ", block.resources(), "; deep:", deep.resources())
    # A block of a torus with halos, all rows of it and some.
    for height, wide, lo, hi, steps in [(40, 64, 0, 40, 1), (300, 128, 17, 290, 8), (530, 64 * 61, 100, 420, 5),
                                        (700, 64 * 30, 0, 700, 7), (200, 64 * 31, 70, 130, 64), (300, 64 * 3, 64, 236, 20)]:
        cells = np.random.randint(0, 2, (height, wide)).astype(np.uint8)
        want = cells
        for _ in range(steps):
            want = life(want)
        pack = lambda c: np.packbits(c, axis=1, bitorder="little").view(np.int64)
        grid = torch.from_numpy(pack(cells).copy()).cuda()
        above, below = torch.roll(grid, steps - lo, 0)[:steps].contiguous(), torch.roll(grid, -hi, 0)[:steps].contiguous()
        mid, out = grid[lo:hi].contiguous(), poisoned(hi - lo, wide // 64, dtype=torch.int64)
        k = block if steps <= 8 else deep
        k((wide // 64, hi - lo), (above, mid, below, out), words(wide // 64, hi - lo, steps))
        same(out.cpu().numpy(), pack(want)[lo:hi], f"automata {height}×{wide}, {steps} steps")
    n, steps, w = 16384, 100, 16384 // 64
    grids = [torch.randint(-2**63, 2**63 - 1, (n, w), device="cuda") for _ in range(2)]
    first = grids[0].clone()

    def run():
        left, at = steps, 0
        while left:
            s = min(8, left)
            a, b = grids[at], grids[1 - at]
            block((w, n), (a[n - s:], a, a[:s], b), words(w, n, s))
            left, at = left - s, 1 - at
        return grids[at]

    got = run()
    # A window of it by counting neighbours; nothing moves faster than a cell a step.
    part = np.unpackbits(first[:400].cpu().numpy().view(np.uint8), axis=1, bitorder="little")[:, :64 * 16]
    for _ in range(steps):
        part = life(part)
    have = np.unpackbits(got[:400].cpu().numpy().view(np.uint8), axis=1, bitorder="little")
    same(have[100:300, 100:900].copy(), part[100:300, 100:900].copy(), "automata window")
    ms = timed(run)
    record(f"life {n}², {steps} steps", ms, f"{n * n * steps / ms / 1e6:.0f} Gcell/s", "≥ 5,000 Gcell/s")


def node(mode, level):
    """The level above, by the definition of RFC 6962 or with the last doubled."""
    sha = lambda b: hashlib.sha256(b).digest()
    out = [sha((b"\1" if mode == 0 else b"") + level[i] + level[i + 1]) for i in range(0, len(level) - 1, 2)]
    if len(level) % 2:
        out.append(level[-1] if mode == 0 else sha(level[-1] * 2))
    return out


def merkle():
    m = Module("merkle/merkle.ptx")
    chunks, root = m.kernel("merkle_chunks", (1,), 256), m.kernel("merkle_root", (1,), 256)
    print("  ", chunks.resources(), "; root:", root.resources())

    def top_of(nodes, work, top, mode, count):
        """The root of nodes, by way of a level between where there are many."""
        while count > 256:
            above = poisoned(32 * ((count + 63) // 64), dtype=torch.uint8)
            chunks(((count + 63) // 64,), (nodes, above), words(mode, 6, count, 1))
            nodes, count = above, (count + 63) // 64
        root((1,), (nodes, top, work), words(mode, count))

    def run(leaves, nodes, work, top, mode, h, n):
        count = (n + (1 << h) - 1) >> h
        chunks((count,), (leaves, nodes), words(mode, h, n, 0))
        top_of(nodes, work, top, mode, count)

    for mode in (0, 1):
        for h, n in [(0, 1), (1, 2), (1, 3), (2, 3), (3, 40), (6, 1000), (11, 2048), (11, 5000), (9, 3 * 512 + 1), (3, 40_000)]:
            data = os.urandom(32 * n)
            leaves = torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda()
            count = (n + (1 << h) - 1) >> h
            nodes, work = poisoned(32 * count, dtype=torch.uint8), poisoned(16 * count + 32, dtype=torch.uint8)
            top = poisoned(32, dtype=torch.uint8)
            run(leaves, nodes, work, top, mode, h, n)
            level = [data[i:i + 32] for i in range(0, 32 * n, 32)]
            if mode == 0:
                level = [hashlib.sha256(b"\0" + x).digest() for x in level]
            while len(level) > 1:
                level = node(mode, level)
            same(top.cpu().numpy(), np.frombuffer(level[0], np.uint8), f"merkle mode {mode}, {n} leaves, height {h}")
    n, h = 1 << 24, 11
    leaves = torch.randint(0, 256, (32 * n,), dtype=torch.uint8, device="cuda")
    count = n >> h
    nodes, work, top = (poisoned(s, dtype=torch.uint8) for s in (32 * count, 16 * count, 32))
    ms = timed(lambda: chunks((count,), (leaves, nodes), words(0, h, n, 0)))
    last = timed(lambda: top_of(nodes, work, top, 0, count))
    record(f"merkle 2²⁴ leaves", ms + last, f"{n / (ms + last) / 1e3:.0f} Mleaf/s, root {last * 1e3:.0f} µs", "10 × 16 cores, host memory")
    host = torch.empty(32 * n, dtype=torch.uint8, pin_memory=True)
    streams = [torch.cuda.Stream() for _ in range(2)]
    parts = 16

    def pipelined():
        for p in range(parts):
            with torch.cuda.stream(streams[p % 2]):
                a, b = 32 * n // parts * p, 32 * n // parts * (p + 1)
                leaves[a:b].copy_(host[a:b], non_blocking=True)
                c = count // parts
                chunks((c,), (leaves[a:b], nodes[32 * c * p:]), words(0, h, n // parts, 0))
        for s in streams:
            torch.cuda.current_stream().wait_stream(s)
        top_of(nodes, work, top, 0, count)

    ms = timed(pipelined, 7)
    record("merkle 2²⁴ from pinned host", ms, f"{n / ms / 1e3:.0f} Mleaf/s", "")


def reduce():
    m = Module("reduce/reduce.ptx")

    def tree(x, op, start):
        """What package reduce prescribes, in NumPy."""
        n = len(x)
        full = np.full((n + 4095) // 4096 * 4096, start, np.float32)
        full[:n] = x
        lanes = full.reshape(-1, 128, 32)
        acc = np.full((len(lanes), 32), start, np.float32)
        for i in range(128):
            acc = op(acc, lanes[:, i])
        while acc.shape[1] > 1:
            half = acc.shape[1] // 2
            acc = op(acc[:, :half], acc[:, half:])
        p = acc[:, 0]
        while len(p) > 1:
            odd = p[-1:] if len(p) % 2 else p[:0]
            p = np.concatenate([op(p[0:len(p) // 2 * 2:2], p[1::2]), odd])
        return p[0]

    ops = {"sum": (np.add, 0), "average": (np.add, 0), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf)}
    for name, (op, start) in ops.items():
        blocks = m.kernel("reduce_sum" if name == "average" else "reduce_" + name, (8,), 256)
        fold = m.kernel("reduce_fold_" + name, (1,), 1024)

        def run(x, partial, work, out, n):
            count = (n + 4095) // 4096
            blocks((count,), (x, partial), words(n))
            fold((1,), (partial, out, work), words(count, n))

        print("  ", name, blocks.resources(), "; fold:", fold.resources())
        for n in (1, 31, 4096, 4097, 100_001, 4096 * 33, 4096 * 1024 + 77, 4096 * 40_000 + 5):
            x = random(n)
            if n == 100_001 and name in ("max", "min"):
                x[777] = float("nan")
            count = (n + 4095) // 4096
            partial, work, out = poisoned(count), poisoned(count), poisoned(1)
            run(x, partial, work, out, n)
            want = tree(x.cpu().numpy(), op, np.float32(start))
            if name == "average":
                want = np.float32(want / np.float32(n))
            if want != want:
                assert torch.isnan(out[0]), f"reduce {name} of a NaN"
            else:
                same(out.cpu().numpy(), np.array([want], np.float32), f"reduce {name} of {n}")
        n = 1 << 28
        x, count = random(n), n // 4096
        partial, work, out = poisoned(count), poisoned(count), poisoned(1)
        ms = timed(lambda: run(x, partial, work, out, n))
        alone = timed(lambda: blocks((count,), (x, partial), words(n)))
        peer = timed({"sum": x.sum, "average": x.mean, "max": x.max, "min": x.min}[name])
        record(f"{name} of 1 GiB", ms, f"{4e-6 * n / ms:.0f} GB/s, blocks alone {4e-6 * n / alone:.0f}",
               "≥ 3,825 GB/s", f"PyTorch {4e-6 * n / peer:.0f}")
    y = torch.empty_like(x)
    ms = timed(lambda: y.copy_(x))
    record("copy 1 GiB (PyTorch)", ms, f"{8e-6 * n / ms:.0f} GB/s", "≥ 3,825 GB/s")


def landscape():
    k = Module("landscape/landscape.ptx").kernel("landscape_rows", (1, 250), 256)
    print("  ", k.resources())
    t = 2 * np.pi * np.arange(1000) / 1000
    cos, sin = np.cos(t), np.sin(t)
    turns = torch.from_numpy(np.concatenate([cos, sin])).cuda()

    def helix(n):
        i = np.arange(n)
        a = i * 100 * np.pi / 180
        return np.stack([2.3 * np.cos(a), 2.3 * np.sin(a), 1.5 * i], 1)

    def row(native, i, energy):
        """A row by the formulas of package landscape, pair by pair."""
        dot = lambda a, b: a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
        cross = lambda a, b: (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])
        out, origin = np.zeros(1000), native[i + 1]
        u = native[i + 1] - native[i]
        u = u * (1 / math.sqrt(dot(u, u)))
        for a in range(i + 2):
            va = native[a] - origin
            for b in range(max(i + 2, a + 4), len(native)):
                vb = native[b] - origin
                along = dot(va, u) * dot(vb, u)
                d2 = dot(va, va) + dot(vb, vb) - 2 * along - 2 * (dot(va, vb) - along) * cos - 2 * dot(va, cross(u, vb)) * sin
                d = native[a] - native[b]
                s2 = dot(d, d)
                contact = s2 < 64
                q = (s2 if contact else 16.0) / d2
                q2 = q * q
                e = q2 * q2 * q * ((5 * q - 6) if contact else (1 * q - 0))
                out += e if contact else np.where(d2 < 144, e, 0)
        out += energy - out[0]
        if i > 0:
            out += 1 - cos + 0.5 * (1 - cos[3 * np.arange(1000) % 1000])
        return out

    for n, lo, hi in [(4, 0, 2), (46, 0, 44), (90, 40, 43)]:
        native = helix(n) + np.random.rand(n, 3)
        out = poisoned(hi - lo, 1000, dtype=torch.float64)
        k((hi - lo, 1000), (torch.from_numpy(native).cuda(), turns, out), words(n, lo, hi - lo, 0) + struct.pack("<d", -12.5))
        for i in range(lo, hi):
            same(out[i - lo].cpu().numpy(), row(native, i, -12.5), f"landscape of {n}, row {i}")
    for n in (500, 2000):
        native, out = torch.from_numpy(helix(n)).cuda(), poisoned(n - 2, 1000, dtype=torch.float64)
        ms = timed(lambda: k((n - 2, 1000), (native, turns, out), words(n, 0, n - 2, 0) + struct.pack("<d", 0)), 3, 1)
        pairs = 1000 * sum((i + 2) * (n - i - 2) for i in range(n - 2))
        record(f"landscape of {n}", ms, f"{pairs / ms / 1e6:.1f} Gpair/s", "")


def conv():
    k = Module("conv/conv.ptx").kernel("conv_images", (1, 64, 2), 256)
    print("  ", k.resources())
    torch.backends.cudnn.allow_tf32 = False

    def run(x, w, y, stride, pad):
        k((y.shape[2], y.shape[1], y.shape[0]), (x, w, y), words(*x.shape, w.shape[0], w.shape[2], w.shape[3], stride, pad))

    for shape, filters, size, stride, pad in [((2, 3, 16, 62), 5, (3, 3), 1, 1), ((3, 5, 17, 13), 70, (5, 2), 2, 2),
                                              ((1, 1, 1, 1), 1, (1, 1), 1, 0), ((2, 8, 40, 200), 64, (3, 3), 2, 0),
                                              ((5, 7, 33, 31), 130, (3, 3), 1, 2), ((3, 6, 24, 96), 100, (3, 3), 1, 0), ((2, 3, 10, 11), 5, (3, 3), 1, 1), ((2, 65, 20, 20), 64, (1, 1), 1, 0)]:
        x, w = random(*shape), random(filters, shape[1], *size)
        want = torch.nn.functional.conv2d(x.double(), w.double(), stride=stride, padding=pad)
        y = poisoned(*want.shape)
        run(x, w, y, stride, pad)
        close(y, want, 1e-6, f"conv {shape}")
        # In every bit: the first filters of the first image, unfolded.
        cols = torch.nn.functional.unfold(x[:1], size, padding=pad, stride=stride)[0].cpu().numpy()
        same(y[0].reshape(filters, -1).cpu().numpy(), fused(w.reshape(filters, -1).cpu().numpy(), cols), f"conv {shape}")
    for shape in [(32, 64, 128, 128), (32, 64, 56, 56)]:
        x, w = random(*shape), random(64, 64, 3, 3)
        y = poisoned(shape[0], 64, *shape[2:])
        run(x, w, y, 1, 1)
        close(y, torch.nn.functional.conv2d(x.double(), w.double(), padding=1), 1e-6, "conv")
        ms = timed(lambda: run(x, w, y, 1, 1))
        torch.backends.cudnn.benchmark = True
        peer = timed(lambda: torch.nn.functional.conv2d(x, w, padding=1))
        flops = 2 * shape[0] * shape[2] * shape[3] * 64 * 64 * 9
        record(f"conv {'×'.join(map(str, shape))}", ms, f"{flops / ms / 1e9:.1f} TFLOP/s", "within 10 % of cuDNN",
               f"cuDNN fp32 {peer:.3f} ms, {flops / peer / 1e9:.1f}")


def philox(c, k0, k1):
    """Philox4x32-10 of Salmon et al., SC 2011, on arrays of words."""
    c = [np.asarray(x, np.uint64) for x in c]
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [p1 >> np.uint64(32) ^ c[1] ^ np.uint64(k0), p1 & mask, p0 >> np.uint64(32) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def reservoir():
    m = Module("reservoir/reservoir.ptx")
    step, part = m.kernel("reservoir_step", (16, 32), 512), m.kernel("reservoir_rows", (16, 32), 512)
    print("  ", step.resources())
    f = np.float32

    def tanh(x):
        """expm1(2x)/(expm1(2x)+2) by the polynomial of package reservoir, every operation rounded."""
        y = f(2) * np.clip(x, f(-9.02), f(9.02))
        m = y * f(math.log2(math.e)) + f(3 << 22)
        n = m - f(3 << 22)
        high = float.fromhex("0x1.62ep-1")
        r = y - n * f(high) - n * f(math.log(2) - high)
        p = r * f(1 / 5040) + f(1 / 720)
        for c in (1 / 120, 1 / 24, 1 / 6, 0.5):
            p = r * p + f(c)
        p = r * r * p + r
        s = ((m.view(np.uint32) << np.uint32(23)) + np.uint32(0x3F800000)).view(f)
        e = s * p + (s - f(1))
        return e / (e + f(2))

    def sparse(rows, cols, p):
        dense = np.where(np.random.rand(rows, cols) < p, np.random.rand(rows, cols) * 2 - 1, 0).astype(f) / f(4)
        at = [np.flatnonzero(r) for r in dense]
        start = np.cumsum([0] + [len(a) for a in at]).astype(np.int32)
        return dense, [start, np.concatenate(at).astype(np.int32), np.concatenate([dense[i][a] for i, a in enumerate(at)])]

    def cuda_of(*arrays):
        return [torch.from_numpy(np.ascontiguousarray(a)).cuda() for a in arrays]

    def setup(size, inputs, batch, steps, p=0.1):
        w, ws = sparse(size, size, p)
        win, us = sparse(size, inputs, max(p, 2 / inputs))
        bias = (np.random.rand(size) * 0.2 - 0.1).astype(f)
        return w, ws, win, us, bias, np.random.rand(steps, inputs, batch).astype(f)

    def params(size, inputs, first, neurons, batch, block, t, steps):
        return words(size, inputs, first, neurons, 7, batch, block, t, steps, 5) + struct.pack("<ff", 0.3, 0.01)

    def blocked(x, block):
        """Patterns, which are the last dimension, in blocks one after the other."""
        return np.concatenate([x[..., i:i + block].reshape(-1) for i in range(0, x.shape[-1], block)])

    for size, inputs, batch, block, steps in [(50, 7, 1, 16, 3), (203, 11, 37, 16, 6), (64, 3, 100, 64, 5), (90, 40, 70, 70, 4)]:
        w, ws, win, us, bias, u = setup(size, inputs, batch, steps)
        x, mean = np.zeros((size, batch), f), np.zeros((size, batch), f)
        history = []
        for t in range(steps):
            history.append(x)
            neuron, item = np.arange(size)[:, None], np.arange(7, 7 + batch)[None]
            four = philox([item, np.zeros_like(item), np.full_like(item, t), neuron // 4], 5, 3)
            word = np.choose(neuron % 4, [np.broadcast_to(b, (size, batch)) for b in four])
            sums = np.repeat(bias[:, None], batch, 1)
            for (start, column, value), source in ((ws, x), (us, u[t])):
                for i in range(size):
                    for e in range(start[i], start[i + 1]):
                        sums[i] += value[e] * source[column[e]]
            sums += f(0.01) * (((word >> np.uint64(9)).astype(f) + f(0.5)) / f(1 << 22) - f(1))
            x = (f(1) - f(0.3)) * x + f(0.3) * tanh(sums)
            mean = mean + x / f(steps)
        data = cuda_of(*ws, *us, bias, blocked(u, block), np.zeros(size * batch, f))
        end, average, between = (poisoned(size * batch) for _ in range(3))
        for t in range(steps):
            step((size, batch), data + [end, average, between], params(size, inputs, 0, size, batch, block, t, steps))
        what = f"reservoir of {size}, {batch} patterns"
        same(end.cpu().numpy(), blocked(x, block), what)
        same(average.cpu().numpy(), blocked(mean, block), what + ", means")
        # The last step of some neurons of all patterns.
        lo, hi = size // 3, size - 5
        cut = lambda s: [s[0][lo:hi + 1], s[1][s[0][lo]:s[0][hi]], s[2][s[0][lo]:s[0][hi]]]
        data = cuda_of(*cut(ws), *cut(us), bias[lo:hi], u, history[-1])
        rows_of = poisoned((hi - lo) * batch)
        part((hi - lo, batch), data + [rows_of, torch.zeros_like(rows_of)], params(size, inputs, lo, hi - lo, batch, batch, steps - 1, steps))
        same(rows_of.cpu().numpy(), x[lo:hi].reshape(-1), what + ", some neurons")

    def replayed(run):
        run()
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            run()
        return timed(g.replay)

    for batch in (1, 64, 1024):
        size, inputs, steps, block = 1000, 64, 100, min(batch, 64)
        w, ws, win, us, bias, u = setup(size, inputs, batch, steps)
        data = cuda_of(*ws, *us, bias, blocked(u, block), np.zeros(size * batch, f)) + [poisoned(size * batch) for _ in range(3)]

        def run():
            for t in range(steps):
                step((size, batch), data, params(size, inputs, 0, size, batch, block, t, steps))

        ms = replayed(run)
        tw, twin, tb, tu = cuda_of(w, win, bias[:, None], u)

        def dense():
            x = torch.zeros(size, batch, device="cuda")
            mean = torch.zeros_like(x)
            for t in range(steps):
                x = 0.7 * x + 0.3 * torch.tanh(tw @ x + twin @ tu[t] + tb)
                mean += x / steps
            return x

        peer = replayed(dense)
        record(f"reservoir 1000, 100 steps, batch {batch}", ms, f"{batch / ms:.0f} k/s", "",
               f"PyTorch dense {peer:.3f} ms, no noise")


CASES = [gemm, tropical, automata, merkle, reduce, landscape, conv, reservoir]


def main():
    names = sys.argv[1:] or [c.__name__ for c in CASES]
    failed = []
    np.random.seed(1)
    torch.manual_seed(1)
    print(torch.cuda.get_device_name(0), "· PyTorch", torch.__version__)
    for case in CASES:
        if case.__name__ not in names:
            continue
        print(case.__name__, flush=True)
        try:
            case()
        except Exception as e:  # the others still have something to say
            print("   FAILED:", e, flush=True)
            failed.append(case.__name__)
    widths = [max((len(r[i]) for r in rows), default=0) for i in range(5)]
    print()
    for r in rows:
        print("  ".join(c.ljust(w) for c, w in zip(r, widths)))
    if os.environ.get("ROWS"):  # for bench/gpu.sh
        with open(os.environ["ROWS"], "w") as f:
            f.writelines("\t".join(r) + "\n" for r in rows)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
