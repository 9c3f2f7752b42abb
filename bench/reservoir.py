#!/usr/bin/env python3
"""Checks and times the dense kernels of the reservoir beside PyTorch.

    bench/reservoir.py

Needs an NVIDIA GPU from Hopper on and PyTorch, neither Go nor CUDA's toolkit. The kernels
are launched as workload/reservoir/dense.go launches them, with the inputs on the device. The
peer is a CUDA graph of the same steps in PyTorch, in float32, in the same process. Errors are
against float64: those of the kernels may be at most twice those of PyTorch. Where clusters
take a batch through all steps, it must have the bits of its patterns one by one.
"""
import ctypes
import sys

import torch

from ptx import Module, call, poisoned, timed

LEAK = 0.3
HELD = {1: 24, 2: 22, 4: 20, 8: 13, 10: 12}  # groups of weights in registers, by patterns
TILES = {"line": (16, 1, 0), "strip": (32, 64, 4 * 3 * (32 * 68 + 64 * 72)), "tile": (64, 64, 4 * 4 * (64 * 36 + 32 * 72))}
CLUSTERS, TILE_FROM, BUSY = 7, 256, 256
BARS = {1: 5, 64: 3, 4096: 1.15}


class Call(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint) for n in "size inputs first neurons pattern batch block step steps seed".split()]
    _fields_ += [("leak", ctypes.c_float), ("noise", ctypes.c_float)]


class Attribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = [("id", ctypes.c_int), ("_", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)]


class Reservoir:
    def __init__(self, size, inputs):
        g = torch.Generator(device="cuda").manual_seed(size)
        draw = lambda *shape: torch.rand(*shape, device="cuda", generator=g) * 2 - 1
        self.size, self.inputs = size, inputs
        self.w, self.u, self.bias = draw(size, size) * (0.95 / (size / 3) ** 0.5), draw(size, inputs), draw(size) * 0.1
        driven = (size + 63) // 64 * 64
        self.dense = torch.zeros(size, driven + (inputs + 31) // 32 * 32, device="cuda")
        self.dense[:, :size], self.dense[:, driven:driven + inputs] = self.w, self.u

    def steps(self, inputs, dtype):
        w, u, bias = self.w.to(dtype), self.u.to(dtype), self.bias.to(dtype)[:, None]
        x = torch.zeros(self.size, inputs.shape[2], device="cuda", dtype=dtype)
        for i in inputs:
            x = (1 - LEAK) * x + LEAK * torch.tanh(w @ x + u @ i.to(dtype) + bias)
        return x

    def peer(self, inputs):
        x = torch.zeros(self.size, inputs.shape[2], device="cuda")
        bias = self.bias[:, None].expand(-1, inputs.shape[2])
        for i in inputs:
            x = torch.add((1 - LEAK) * x, torch.tanh(torch.addmm(torch.addmm(bias, self.u, i), self.w, x)), alpha=LEAK)
        return x


functions = {}


def launch(name, grid, shared, cluster, buffers, params):
    if name not in functions:
        f = functions[name] = module.kernel("reservoir_" + name)
        call("cuFuncSetAttribute", f.handle, 8, 227 << 10 if cluster else max(shared, 48 << 10))
        if cluster:
            call("cuFuncSetAttribute", f.handle, 14, 1)  # more than eight blocks
    attribute = Attribute(4, 0, (ctypes.c_uint * 16)(cluster, 1, 1))
    config = Config((ctypes.c_uint * 3)(*grid, 1), (ctypes.c_uint * 3)(256, 1, 1), shared,
                    torch.cuda.current_stream().cuda_stream, ctypes.pointer(attribute), 1 if cluster else 0)
    held = [ctypes.c_uint64(b.data_ptr()) for b in buffers] + [params]
    pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(h) for h in held])
    call("cuLaunchKernelEx", ctypes.byref(config), functions[name].handle, pointers, None)


class Batch:
    """Some patterns, in one block: inputs by step, channel and pattern."""

    def __init__(self, net, inputs):
        self.net, self.inputs = net, inputs
        self.count = inputs.shape[2]
        self.whole = net.size <= 1024 and net.inputs <= 128 and self.count < TILE_FROM
        n = net.size * self.count
        self.start, self.end, self.mean, self.between = torch.zeros(n, device="cuda"), poisoned(n), poisoned(n), poisoned(n)
        if self.whole:
            sizes = [p for p in HELD if p < 10 or net.inputs <= 64]
            self.at_once = next((p for p in sizes[:-1] if self.count <= CLUSTERS * p), sizes[-1])
            self.name = f"whole_{self.at_once}"
        elif self.count == 1:
            self.name = "line"
        else:
            self.name = "strip" if -(-net.size // 64) * -(-self.count // 64) < BUSY else "tile"

    def run(self):
        net, steps = self.net, self.inputs.shape[0]
        buffers = [net.dense, net.bias, self.inputs, self.start, self.end, self.mean, self.between]
        params = lambda s: Call(net.size, net.inputs, 0, net.size, 0, self.count, self.count, s, steps, 0, LEAK, 0)
        if self.whole:
            p, groups = self.at_once, (net.inputs + 31) // 32
            shared = 16 + (32 + groups - HELD[p]) * 8192 + (1024 + 64 * groups) * 4 * p
            launch(self.name, (16 * -(-self.count // p), 1), shared, 16, buffers[:-1], params(0))
            return
        rows, columns, shared = TILES[self.name]
        for s in range(steps):
            launch(self.name, (-(-net.size // rows), -(-self.count // columns)), shared, 0, buffers, params(s))


def replay(run):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        run()
    return g.replay


def check(net, inputs):
    b = Batch(net, inputs)
    b.run()
    torch.cuda.synchronize()
    exact, peer = net.steps(inputs, torch.float64), net.steps(inputs, torch.float32)
    rms = lambda x: (x.double() - exact).pow(2).mean().sqrt().item()
    got = b.end.view(net.size, -1)
    error, bound = rms(got), rms(peer)
    if not error <= 2 * bound:
        sys.exit(f"{b.name}: root mean square error {error:.2e}, PyTorch {bound:.2e}")
    if b.whole:
        for i in {0, b.count // 2, b.count - 1}:
            one = Batch(net, inputs[:, :, i:i + 1].contiguous())
            one.run()
            torch.cuda.synchronize()
            if not torch.equal(one.end, got[:, i]) or not torch.equal(one.mean, b.mean.view(net.size, -1)[:, i]):
                sys.exit(f"{b.name}: pattern {i} has other bits among {b.count}")
    return f"{error / bound:.2f}"


def main():
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    print(torch.cuda.get_device_name(0), "· PyTorch", torch.__version__)
    print("neurons  steps  batch  kernel     weft ms  PyTorch ms  times  bar   error/PyTorch's  predictions/s")
    cases = [(1000, 100, b) for b in (1, 64, 4096, 8, 28, 56, 128, 256, 512, 1024)]
    cases += [(n, k, b) for n in (1000, 4096, 16384) for k in (1, 20, 100) for b in (1, 64) if (n, k) != (1000, 100)]
    net, short = None, []
    for size, steps, batch in cases:
        if net is None or net.size != size:
            net = None  # its memory goes before the next takes some
            net = Reservoir(size, 64)
        inputs = torch.rand(steps, net.inputs, batch, device="cuda")
        error = check(net, inputs[:5].contiguous() if size > 1000 else inputs)
        b = Batch(net, inputs)
        ms, peer = timed(replay(b.run), 9), timed(replay(lambda: net.peer(inputs)), 9)
        bar = BARS.get(batch, "") if (size, steps) == (1000, 100) else ""
        if bar and peer / ms < bar:
            short.append(f"batch {batch}: {peer / ms:.2f}, bar {bar}")
        print(f"{size:7}  {steps:5}  {batch:5}  {b.name:9} {ms:8.3f}  {peer:10.3f}  {peer / ms:5.2f}  {bar:4}  {error:>15}  {1e3 * batch / ms:13.0f}", flush=True)
    if short:
        sys.exit("short of the bar: " + "; ".join(short))


module = Module("reservoir/dense.ptx")

if __name__ == "__main__":
    main()
