#!/usr/bin/env python3
"""Rates of this machine's GPU that bench/domains.sh compares weft with, as JSON.

    bench/rates.py SCALE

They are: operations a second in float32, by chains of fused multiply-adds (fma) and by
cuBLAS's product of matrices without TF32 (gemm), and the seconds of a product of the
adjacency matrix of an R-MAT graph of 2^SCALE nodes with a vector, by cuSPARSE through
PyTorch's CSR tensors, for each type of values, with nodes as they are drawn and in the order of
their rows' lengths, as weft has them. Needs PyTorch and an NVIDIA GPU; with
SMALL=1 it does without the GPU, on few elements.
"""
import ctypes
import json
import os
import statistics
import sys
import time

import torch

small = bool(os.environ.get("SMALL"))
device = "cpu" if small else "cuda"


def median(run, times=9, warm=3):
    """The median of a run's seconds on the device."""
    for _ in range(warm):
        run()
    spans = []
    for _ in range(times):
        if small:
            begin = time.perf_counter()
            run()
            spans.append(time.perf_counter() - begin)
            continue
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        run()
        b.record()
        b.synchronize()
        spans.append(a.elapsed_time(b) / 1e3)
    return statistics.median(spans)


# A thread has eight numbers, each a chain, so that one need not wait for another.
CHAINS, DEEP, ROUNDS, THREADS, BLOCKS = 8, 32, 256, 256, 132 * 32


def fma_source():
    """The PTX of chains of fused multiply-adds."""
    chain = "".join(f"fma.rn.f32 %f{i}, %f{i}, %f20, %f21;\n" for _ in range(DEEP) for i in range(CHAINS))
    sums = "".join(f"add.f32 %f22, %f22, %f{i};\n" for i in range(CHAINS))
    begin = "".join(f"cvt.rn.f32.u32 %f{i}, %r1;\nadd.f32 %f{i}, %f{i}, 0f{0x3f800000 + (i << 20):08x};\n" for i in range(CHAINS))
    return f""".version 6.3
.target sm_75
.address_size 64
.visible .entry chains(.param .u64 out, .param .f32 a, .param .f32 b) {{
.reg .f32 %f<23>; .reg .u32 %r<3>; .reg .u64 %rd<3>; .reg .pred %p<3>;
ld.param.f32 %f20, [a]; ld.param.f32 %f21, [b]; ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.f32 %f22, 0f00000000;
{begin}again:
{chain}add.u32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, {ROUNDS};
@%p1 bra again;
{sums}setp.eq.f32 %p2, %f22, 0f4640e400;
@%p2 st.global.f32 [%rd1], %f22;
ret;
}}
""".encode() + b"\0"


def fma():
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        code = getattr(cuda, name)(*args)
        if code:
            raise RuntimeError(f"{name}: error {code}")

    out = torch.zeros(1, device="cuda")
    module, entry = ctypes.c_void_p(), ctypes.c_void_p()
    call("cuModuleLoadData", ctypes.byref(module), fma_source())
    call("cuModuleGetFunction", ctypes.byref(entry), module, b"chains")
    held = [ctypes.c_uint64(out.data_ptr()), ctypes.c_float(0.999), ctypes.c_float(0.001)]
    pointers = (ctypes.c_void_p * 3)(*[ctypes.addressof(h) for h in held])

    def run():
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        call("cuLaunchKernel", entry, BLOCKS, 1, 1, THREADS, 1, 1, 0, stream, pointers, None)

    return 2 * CHAINS * DEEP * ROUNDS * THREADS * BLOCKS / median(run)


def gemm():
    torch.backends.cuda.matmul.allow_tf32 = False
    n = 256 if small else 8192
    a, b = torch.rand(n, n, device=device), torch.rand(n, n, device=device)
    return 2 * n**3 / median(lambda: torch.mm(a, b), 5)


def rmat(scale, each=16):
    """An R-MAT graph as weft draws them, by rows of those that edges lead to."""
    nodes = 1 << scale
    torch.manual_seed(1)
    source = torch.zeros(each * nodes, dtype=torch.int64, device=device)
    target = torch.zeros_like(source)
    for _ in range(scale):
        drawn = torch.rand(each * nodes, device=device)
        source = 2 * source + (drawn >= 0.76)
        target = 2 * target + (((drawn >= 0.57) & (drawn < 0.76)) | (drawn >= 0.95))
    keys = torch.unique(target * nodes + source)
    return nodes, keys >> scale, keys & (nodes - 1)


def compressed(nodes, rows, columns):
    """The starts of rows and the columns of a matrix."""
    keys = torch.sort(rows * nodes + columns).values
    starts = torch.zeros(nodes + 1, dtype=torch.int64, device=device)
    starts[1:] = torch.cumsum(torch.bincount(rows, minlength=nodes), 0)
    return starts.int(), (keys % nodes).int()


def products(scale):
    """Seconds of products with the adjacency matrix, and its edges."""
    nodes, rows, columns = rmat(scale)
    order = torch.sort(torch.bincount(rows, minlength=nodes), descending=True, stable=True).indices
    place = torch.empty_like(order)
    place[order] = torch.arange(nodes, device=device)
    out = {"edges": len(columns)}
    many = 16  # products between two looks at the clock
    for name, matrix in {"": compressed(nodes, rows, columns), " in order": compressed(nodes, place[rows], place[columns])}.items():
        for value in (torch.float32, torch.float64):
            ones = torch.ones(len(columns), dtype=value, device=device)
            csr = torch.sparse_csr_tensor(*matrix, ones, (nodes, nodes))
            x = torch.rand(nodes, dtype=value, device=device)

            def run():
                for _ in range(many):
                    torch.mv(csr, x)

            out[f"{value} int32{name}".replace("torch.", "")] = median(run) / many
    return out


def main():
    scale = int(sys.argv[1])
    out = {}
    for name, f in {"fma": (lambda: None) if small else fma, "gemm": gemm, "csr": lambda: products(scale)}.items():
        try:
            out[name] = f()
        except Exception as e:  # the others are still worth having
            print(f"{name}: {e}", file=sys.stderr)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
