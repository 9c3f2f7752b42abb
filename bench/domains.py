#!/usr/bin/python3
"""Compares weft's domains with numpy, networkx, mpmath and lrcalc.

    apt install python3-numpy python3-networkx python3-mpmath lrcalc
    bench/domains.py [devices]

Run with Debian's own Python (/usr/bin/python3) from anywhere; it needs Go too. Every input is drawn
here, bench/domains computes it on the devices (cpu/2), and each line says what was compared and the
largest difference. It ends with an error if one is larger than it may be.
"""
import functools
import itertools
import json
import math
import os
import subprocess
import sys

import mpmath as mp
import networkx as nx
import numpy as np

import network

mp.mp.dps = 30
rng = np.random.default_rng(5)
wrong = []


def report(what, oracle, off, most):
    """A line of the table: the largest difference, and the most there may be."""
    bad = not off <= most
    print(f"{what:58} {oracle:10} {off:9.2g} {most:9.2g}{'  WRONG' if bad else ''}")
    if bad:
        wrong.append(what)


# Geometric algebra: multivectors as matrices.

ALGEBRAS = [(3, 0), (1, 3), (4, 1), (6, 0)]


def gammas(p, q):
    """Matrices whose squares are 1 p times and -1 q times, and which anticommute."""
    x, y, z, one = np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1]), np.eye(2)
    out = [x, y, z]  # Pauli's
    if p + q != 3:
        k = (p + q + 1) // 2
        out = [functools.reduce(np.kron, [z] * i + [s] + [one] * (k - i - 1)) for i in range(k) for s in (x, y)]
    return [m if i < p else 1j * m for i, m in enumerate(out[: p + q])]


def ask_products():
    out = []
    for p, q in ALGEBRAS:
        size = 2 ** (p + q)
        draw = lambda: [float(v) for v in rng.uniform(-1, 1, 7 * size).astype(np.float32)]
        plane = [0.0] * size
        plane[1 + p + q] = 1.0  # e12
        out.append({"P": p, "Q": q, "X": draw(), "Y": draw(), "Angle": 0.7, "Plane": plane})
    return out


def check_products(asked, got):
    for ask, answer in zip(asked, got):
        p, q = ask["P"], ask["Q"]
        g = gammas(p, q)
        blades = []
        for name in answer["blades"]:
            m = np.eye(len(g[0]), dtype=complex)
            for digit in name[1:] if name != "1" else "":
                m = m @ g[int(digit) - 1]
            blades.append(m)
        as_matrix = lambda v: np.einsum("ni,ijk->njk", np.reshape(v, (-1, len(blades))), np.array(blades))
        x, y = as_matrix(ask["X"]), as_matrix(ask["Y"])
        name = f"Cl({p},{q})"
        report(f"5.1 products in {name}", "numpy", abs(as_matrix(answer["product"]) - x @ y).max(), 1e-5)
        b = as_matrix(ask["Plane"])[0]
        square = (b @ b)[0, 0].real
        angle = ask["Angle"]
        c, s = (math.cos, math.sin) if square < 0 else (math.cosh, math.sinh)
        r, back = c(angle / 2) * blades[0] - s(angle / 2) * b, c(angle / 2) * blades[0] + s(angle / 2) * b
        report(f"5.1 rotor of {name}, {'turn' if square < 0 else 'boost'} in e12", "numpy", abs(as_matrix(answer["turned"]) - r @ x @ back).max(), 1e-5)
        series, term = np.zeros_like(b), np.eye(len(b), dtype=complex)
        for k in range(1, 30):
            series, term = series + term, term @ b / k
        report(f"5.1 exponential of e12 in {name}", "numpy", abs(as_matrix(answer["exp"])[0] - series).max(), 1e-14)


# Derivatives: complex steps in 30 digits.


def ask_expressions():
    n = 6
    x = [f"x{i}" for i in range(n)]
    rosenbrock = " + ".join(f"100*({x[i + 1]} - {x[i]}*{x[i]})^2 + (1 - {x[i]})^2" for i in range(n - 1))
    b = [0.05 + 0.01 * i for i in range(n)]
    volume = "(" + " + ".join(f"{v}*{a}" for v, a in zip(b, x)) + ")"
    pull = " + ".join(f"{1 / (1 + i + j)}*{x[i]}*{x[j]}" for i in range(n) for j in range(n))
    helmholtz = " + ".join(f"{a}*log({a}/(1 - {volume}))" for a in x) + f" - ({pull})/(sqrt(8)*{volume})*log((1 + (1 + sqrt(2))*{volume})/(1 + (1 - sqrt(2))*{volume}))"
    mixed = "sin(x*y) + exp(z)*log(1 + x^2) + z^3*sin(x)"
    return [
        {"Text": text, "Variables": names, "Points": [float(v) for v in rng.uniform(0.1, 1, 20 * len(names))]}
        for text, names in ((rosenbrock, x), (helmholtz, x), (mixed, ["x", "y", "z"]))
    ]


def check_expressions(asked, got):
    # A number of an expression is the float64 nearest to it, for weft as for Python.
    known = {"sin": mp.sin, "exp": mp.exp, "log": mp.log, "sqrt": mp.sqrt}
    for name, ask, answer in zip(("Rosenbrock", "Helmholtz energy", "sin(x*y) + exp(z)*log(1 + x^2) + …"), asked, got):
        text, names = ask["Text"].replace("^", "**"), ask["Variables"]
        code, n, off = compile(text, name, "eval"), len(names), 0.0
        for i, point in enumerate(np.reshape(ask["Points"], (-1, n))):
            slopes = []
            for k in range(n):
                at = {v: mp.mpc(float(p), mp.mpf(10) ** -40 * (j == k)) for j, (v, p) in enumerate(zip(names, point))}
                slopes.append(eval(code, known, at).imag * mp.mpf(10) ** 40)
            size = max(abs(s) for s in slopes)
            for s, g in zip(slopes, answer["gradients"][n * i :]):
                off = max(off, float(abs(s - g) / size))
        report(f"5.3 gradients of {name}", "mpmath", off, 16 * 2.0**-52)


# Graphs.


def ask_graphs():
    out = []
    for name in ("karate", "davis", "R-MAT"):
        if name == "R-MAT":
            a, b = network.rmat(10, 16)
            g = nx.DiGraph(zip(a.tolist(), b.tolist()))
            g.add_nodes_from(range(int(max(a.max(), b.max())) + 1))
        else:
            g = nx.DiGraph(network.graphs()[name])
        n = len(g)
        matrix = lambda m: {"Rows": m.shape[0], "Cols": m.shape[1], "Data": [float(v) for v in m.ravel()]}
        text = "".join(f"{a} {b}\n" for a, b in g.edges())
        out.append((name, g, {"Text": text, "Features": matrix(network.features(n, 5)), "Weights": [matrix(network.features(5, 3)), matrix(network.features(3, 4))], "K": 3 if name != "R-MAT" else 0}))
    return out


def check_graphs(asked, got):
    for (name, g, ask), answer in zip(asked, got):
        n = len(g)
        nodes = range(n)
        want = nx.pagerank(g, alpha=0.85, tol=1e-15, max_iter=10000)
        ranks = np.array(answer["ranks"])
        report(f"5.6 PageRank of {name}, {n} nodes, largest difference", "networkx", max(abs(want[i] - ranks[i]) for i in nodes), 1e-12)
        a = nx.to_numpy_array(g, nodelist=nodes)
        out = a.sum(1)
        spread = np.where(out[:, None] > 0, a / np.maximum(out, 1)[:, None], 1 / n)
        report(f"5.6 PageRank of {name}, residual", "numpy", abs(0.15 / n + 0.85 * ranks @ spread - ranks).sum(), 1e-12)
        both = nx.Graph(g)
        both.remove_edges_from(list(nx.selfloop_edges(both)))
        want = network.layer(both, network.layer(both, network.features(n, 5), network.features(5, 3)), network.features(3, 4))
        report(f"5.6 two layers of convolution over {name}, {n} rows", "numpy", abs(want.ravel() - answer["layers"]).max(), 1e-5)
        if not ask["K"]:
            continue
        close = nx.closeness_centrality(both)
        report(f"5.6 closeness of {name}", "networkx", max(abs(close[i] - answer["closeness"][i]) for i in nodes), 1e-6)
        dist = np.zeros((n, n))
        for i, row in nx.all_pairs_shortest_path_length(both):
            for j, d in row.items():
                dist[i, j] = d
        at, label = network.medoids(dist, sorted(nodes, key=lambda i: -both.degree(i))[:3], 64)
        report(f"5.6 medoids and labels of {name}", "numpy", sum(x != y for x, y in zip(at + label, answer["medoids"] + answer["labels"])), 0)


# Relativity.

KM = mp.mpf("1.476625")  # half of the sun's Schwarzschild radius
MERCURY = (float(mp.mpf("57909050") * (1 - mp.mpf("0.205630") ** 2) / KM), 0.205630)
ORBITS = [(20, 0.2), (50, 0.5), (12, 0.7), MERCURY]
IMPACTS = [5.2, 6.0, 20.0, 1000.0]


def precession(p, e):
    """The exact integral."""
    p, e = mp.mpf(p), mp.mpf(e)
    return 2 * mp.quad(lambda x: 1 / mp.sqrt(1 - (6 + 2 * e * mp.cos(x)) / p) - 1, [0, mp.pi / 2, mp.pi])


def deflection(b):
    """The exact integral over u = u1 (1 - w^2), where u1 is the first root of 1/b^2 = u^2 - 2 u^3."""
    b = mp.mpf(b)
    first = min(mp.re(u) for u in mp.polyroots([2, -1, 0, 1 / b**2], extraprec=100) if mp.re(u) > 0)

    def rate(w):
        u = first * (1 - w * w)
        # 1/b^2 - u^2 + 2 u^3 divided by first - u
        return 2 * first / mp.sqrt(first * ((first + u) - 2 * (first**2 + first * u + u**2)))
    return 2 * mp.quad(rate, [0, 0.01, 0.1, 0.5, 1]) - mp.pi


def check_relativity(asked, got):
    for (p, e), orbit in zip(ORBITS[:3], got["orbits"]):
        report(f"5.8 precession at p = {p}, e = {e}: {orbit['Angle'] - 2 * math.pi:.8f}", "mpmath", abs(float(precession(p, e)) - (orbit["Angle"] - 2 * math.pi)), 5e-9)
        report(f"5.8 drift of energy at p = {p}, e = {e}, relative", "-", orbit["Drift"], 1e-10)
    turns = 36525 / mp.mpf("87.9691")
    arc = lambda x: float(x * turns * 180 * 3600 / mp.pi)
    weft = arc(mp.mpf(got["orbits"][3]["Angle"]) - 2 * mp.pi)
    report(f"5.8 Mercury: {weft:.3f}\" a century", "mpmath", abs(weft - arc(precession(*MERCURY))), 5e-3)
    off = max(abs(float(deflection(b)) - d) for b, d in zip(IMPACTS, got["rays"]))
    report(f"5.8 deflection at b = {', '.join(str(b) for b in IMPACTS)}", "mpmath", off, 5e-9)
    x, v = np.reshape(asked["Events"], (-1, 4)), np.reshape(asked["Velocities"], (-1, 3))
    v2 = (v * v).sum(1)
    g = 1 / np.sqrt(1 - v2)
    boost = np.zeros((len(x), 4, 4))
    boost[:, 0, 0] = g
    boost[:, 0, 1:] = boost[:, 1:, 0] = -g[:, None] * v
    boost[:, 1:, 1:] = np.eye(3) + ((g - 1) / v2)[:, None, None] * v[:, :, None] * v[:, None, :]
    want = np.einsum("nij,nj->ni", boost, x)
    report(f"5.8 {len(x)} boosts", "numpy", abs(want.ravel() - got["boosts"][0]["boosted"]).max(), 1e-13)
    norms = x[:, 0] ** 2 - (x[:, 1:] ** 2).sum(1)
    report(f"5.8 {len(x)} Minkowski norms behind them", "numpy", abs(norms - got["boosts"][0]["products"]).max(), 1e-11)


# Enumerative geometry.

PRODUCTS = [(2, 5, "2 1", "1"), (3, 6, "2 1", "2 1"), (3, 7, "3 2", "2 1 1"), (4, 8, "3 2 1", "3 2 1"), (4, 9, "4 2 1", "3 3 1"), (5, 10, "4 3 2 1", "3 2 2 1")]


def littlewood():
    """What lrcalc says of Schubert products: (k, n, first, second, third) with a count."""
    out = []
    for k, n, a, b in PRODUCTS:
        run = subprocess.run(["lrcalc", "mult", "-r", str(k), *a.split(), "-", *b.split()], capture_output=True, text=True, check=True)
        for line in run.stdout.splitlines():
            count, parts = line.split(None, 1)
            c = [int(v) for v in parts.strip("() ").split(",")]
            if c[0] <= n - k:
                c += [0] * (k - len(c))
                rest = [n - k - v for v in reversed(c)]
                out.append(({"Problem": "schubert", "K": k, "N": n, "Classes": [[int(v) for v in a.split()], [int(v) for v in b.split()], rest]}, int(count)))
    return out


def degree(k, n):
    return math.factorial(k * (n - k)) * math.prod(math.factorial(i) for i in range(k)) // math.prod(math.factorial(n - k + i) for i in range(k))


def lines(n):
    """Lines on a hypersurface of degree 2n-3 in P^n: a coefficient of (x - y) prod (i x + (d - i) y)."""
    d = 2 * n - 3
    poly = [1]
    times = lambda p, a, b: [a * (p[i] if i < len(p) else 0) + b * (p[i - 1] if i else 0) for i in range(len(p) + 1)]
    for i in range(d + 1):
        poly = times(poly, d - i, i)
    poly = times(poly, -1, 1)
    return poly[n]


def kontsevich(most):
    n = {1: 1}
    for d in range(2, most + 1):
        n[d] = sum(n[a] * n[d - a] * (a**2 * (d - a) ** 2 * math.comb(3 * d - 4, 3 * a - 2) - a**3 * (d - a) * math.comb(3 * d - 4, 3 * a - 1)) for a in range(1, d))
    return n


def integrals():
    spaces = [(2, 4), (3, 6), (4, 8), (5, 12), (8, 18)]
    return (
        [({"Problem": "degree", "K": k, "N": n}, degree(k, n)) for k, n in spaces],
        [({"Problem": "hypersurface", "K": 2, "N": n + 1}, lines(n)) for n in range(3, 13)],
        littlewood(),
    )


def main():
    devices = sys.argv[1] if len(sys.argv) > 1 else "cpu/2"
    parts, curves, drawn = integrals(), kontsevich(30), ask_graphs()
    request = {
        "Devices": devices, "Products": ask_products(), "Expressions": ask_expressions(), "Graphs": [g for _, _, g in drawn],
        "Orbits": ORBITS, "Impacts": IMPACTS,
        "Events": [float(v) for v in rng.uniform(-1, 1, 4000)], "Velocities": [float(v) for v in rng.uniform(-0.55, 0.55, 3000)],
        "Integrals": [c for c, _ in itertools.chain(*parts)], "Curves": list(curves),
    }
    run = subprocess.run(["go", "run", "./bench/domains"], cwd=network.ROOT, input=json.dumps(request), capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    got = json.loads(run.stdout)
    print(f"{'domains on ' + devices:58} {'oracle':10} {'off by':>9} {'at most':>9}")
    check_products(request["Products"], got["products"])
    check_expressions(request["Expressions"], got["expressions"])
    check_graphs(drawn, got["graphs"])
    check_relativity(request, got)
    counts = iter(got["integrals"])
    for what, oracle, part in zip(("degrees of Grassmannians", "counts of lines on hypersurfaces", "Schubert products"), ("formula", "polynomial", "lrcalc"), parts):
        report(f"5.9 {len(part)} {what}", oracle, sum(str(want) != next(counts) for _, want in part), 0)
    report(f"5.9 curves through points, to degree {max(curves)}", "recursion", sum(str(n) != c for n, c in zip(curves.values(), got["curves"])), 0)
    sys.exit("wrong: " + ", ".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
