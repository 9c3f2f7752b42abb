#!/usr/bin/python3
"""Compares weft's graphs with networkx, numpy and SuiteSparse:GraphBLAS.

    apt install python3-networkx python3-numpy libgraphblas-dev gcc
    go build -o weft ./cmd/weft && bench/network.py ./weft [scale]
    bench/network.py --testdata

Run with Debian's own Python (/usr/bin/python3). The first draws a graph by R-MAT with 2^scale nodes
(17) and 16 edges for each, prints what numpy and weft find and what GraphBLAS and weft take on two
cores, one after the other, in five turns, and ends with an error if results differ. Without
libgraphblas-dev it leaves the times of GraphBLAS out and says so. The second writes
workload/network/testdata anew.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import networkx as nx
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "workload", "network", "testdata")


def graphs():
    """The shipped graphs with nodes as numbers."""
    number = lambda g: nx.relabel_nodes(g, {v: i for i, v in enumerate(g)})
    karate = nx.Graph()
    karate.add_nodes_from(range(34))
    karate.add_edges_from(nx.karate_club_graph().edges())
    return {
        "karate": karate,
        "miserables": number(nx.les_miserables_graph()),
        "davis": nx.Graph(number(nx.davis_southern_women_graph()).edges()),
    }


def files():
    """Writes the graphs, each in another format."""
    g = graphs()
    with open(os.path.join(DATA, "karate.mtx"), "w") as f:
        f.write("%%MatrixMarket matrix coordinate pattern symmetric\n% Zachary's karate club\n34 34 78\n")
        for a, b in sorted((max(e) + 1, min(e) + 1) for e in g["karate"].edges()):
            f.write(f"{a} {b}\n")
    with open(os.path.join(DATA, "miserables.graph"), "w") as f:
        m = g["miserables"]
        f.write("% Characters of Les Miserables, with the number of chapters in which two meet\n")
        f.write(f"{len(m)} {m.number_of_edges()} 1\n")
        for v in range(len(m)):
            f.write(" ".join(f"{u + 1} {m[v][u]['weight']}" for u in sorted(m[v])) + "\n")
    with open(os.path.join(DATA, "davis.txt"), "w") as f:
        f.write("# Women (0 to 17) and the social events (18 to 31) they were seen at\n")
        for a, b in sorted((min(e), max(e)) for e in g["davis"].edges()):
            f.write(f"{a} {b}\n")


def layer(g, features, weights):
    """relu(D^-1/2 (A+I) D^-1/2 H W) by dense matrices."""
    a = nx.to_numpy_array(g, nodelist=range(len(g))) + np.eye(len(g))
    d = a.sum(1) ** -0.5
    return np.maximum((d[:, None] * a * d[None, :]) @ features @ weights, 0)


def features(rows, cols):
    """Numbers that the tests make too."""
    return np.array([[((7 * i + 3 * j) % 11 - 5) / 8 for j in range(cols)] for i in range(rows)])


def medoids(dist, start, steps):
    """k-medoids by turns; of equal ones the first counts."""
    at, k = list(start), len(start)
    for _ in range(steps):
        label = dist[:, at].argmin(1)
        for c in range(k):
            members = np.flatnonzero(label == c)
            if len(members):
                at[c] = int(members[dist[np.ix_(members, members)].sum(1).argmin()])
    label = dist[:, at].argmin(1)
    return at, [int(x) for x in label]


def reference():
    """What networkx and numpy say of the shipped graphs, and of a directed one."""
    out = {}
    every = graphs()
    for name, g in every.items():
        n = len(g)
        ranks = nx.pagerank(g, alpha=0.85, tol=1e-15, max_iter=10000)
        close = nx.closeness_centrality(g)
        dist = np.zeros((n, n))
        for i, row in nx.all_pairs_shortest_path_length(g):
            for j, d in row.items():
                dist[i, j] = d
        first = layer(g, features(n, 5), features(5, 3))
        at, label = medoids(dist, sorted(range(n), key=lambda i: -g.degree(i))[:3], 8)
        out[name] = {
            "ranks": [ranks[i] for i in range(n)],
            "closeness": [close[i] for i in range(n)],
            "layer": [round(float(x), 12) for x in layer(g, first, features(3, 4)).ravel()],
            "medoids": at,
            "labels": label,
        }
    # Directed, with nodes that no edge leaves and parts that nothing joins.
    g = nx.DiGraph([(i, (i * i + k) % 40) for i in range(30) for k in range(3) if i % 5])
    g.add_nodes_from(range(45))
    ranks = nx.pagerank(g, alpha=0.85, tol=1e-15, max_iter=10000)
    out["directed"] = {"edges": sorted(g.edges()), "ranks": [ranks[i] for i in range(45)]}
    with open(os.path.join(DATA, "reference.json"), "w") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in out.items()) + "\n}\n")



PEER = r"""
// PageRank and a layer of graph convolution by GraphBLAS, on a graph in compressed rows.
#include <GraphBLAS.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define OK(call) do { GrB_Info i_ = (call); if (i_ != GrB_SUCCESS && i_ != GrB_NO_VALUE) { fprintf(stderr, "%s: %d\n", #call, i_); exit(1); } } while (0)

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void *load(const char *name, size_t bytes) {
	void *p = malloc(bytes ? bytes : 1);
	FILE *f = fopen(name, "rb");
	if (!f || fread(p, 1, bytes, f) != bytes) {
		perror(name);
		exit(1);
	}
	fclose(f);
	return p;
}

int main(int argc, char **argv) {
	GrB_Index n = atoll(argv[2]), m = atoll(argv[3]), both = atoll(argv[4]);
	int steps = atoi(argv[5]), width = atoi(argv[6]), turns = atoi(argv[7]);
	if (argc < 8 || chdir(argv[1]))
		return 1;
	OK(GrB_init(GrB_NONBLOCKING));
	OK(GxB_Global_Option_set(GxB_GLOBAL_NTHREADS, atoi(argv[8])));
	// The graph with edges turned round, as rows of ones.
	GrB_Matrix in, norm, h, z, w, out;
	bool one = true;
	GrB_Index *p = load("in_p", 8 * (n + 1)), *c = load("in_c", 8 * m);
	bool *x = malloc(1);
	x[0] = one;
	OK(GrB_Matrix_new(&in, GrB_BOOL, n, n));
	OK(GxB_Matrix_import_CSR(&in, GrB_BOOL, n, n, &p, &c, (void **)&x, 8 * (n + 1), 8 * m, 1, true, false, GrB_NULL));
	double *share = load("shares", 8 * n), *start = load("start", 8 * n);
	GrB_Vector shares, given, sums;
	OK(GrB_Vector_new(&shares, GrB_FP64, n));
	OK(GxB_Vector_import_Full(&shares, GrB_FP64, n, (void **)&share, 8 * n, false, GrB_NULL));
	OK(GrB_Vector_new(&sums, GrB_FP64, n));
	for (int t = 0; t < turns; t++) {
		OK(GrB_Vector_new(&given, GrB_FP64, n));
		double *copy = malloc(8 * n);
		for (GrB_Index i = 0; i < n; i++)
			copy[i] = start[i];
		OK(GxB_Vector_import_Full(&given, GrB_FP64, n, (void **)&copy, 8 * n, false, GrB_NULL));
		double begin = now();
		for (int s = 0; s < steps; s++) {
			// sums = 1, sums += in given, given = shares (0.15 + 0.85 sums) up to a factor, as weft has it
			OK(GrB_assign(sums, GrB_NULL, GrB_NULL, 1 / 0.85, GrB_ALL, n, GrB_NULL));
			OK(GrB_mxv(sums, GrB_NULL, GrB_PLUS_FP64, GxB_PLUS_SECOND_FP64, in, given, GrB_NULL));
			OK(GrB_apply(sums, GrB_NULL, GrB_NULL, GrB_TIMES_FP64, sums, 0.85, GrB_NULL));
			OK(GrB_eWiseMult(given, GrB_NULL, GrB_NULL, GrB_TIMES_FP64, sums, shares, GrB_NULL));
		}
		OK(GrB_wait(given, GrB_MATERIALIZE));
		printf("pagerank %.6f\n", now() - begin);
		OK(GrB_free(&given));
	}
	// A layer: relu(norm h w), all in float32.
	p = load("norm_p", 8 * (n + 1)), c = load("norm_c", 8 * both);
	float *v = load("norm_x", 4 * both), *hx = load("features", 4 * n * width), *wx = load("weights", 4 * width * width);
	OK(GrB_Matrix_new(&norm, GrB_FP32, n, n));
	OK(GxB_Matrix_import_CSR(&norm, GrB_FP32, n, n, &p, &c, (void **)&v, 8 * (n + 1), 8 * both, 4 * both, false, false, GrB_NULL));
	OK(GrB_Matrix_new(&h, GrB_FP32, n, width));
	OK(GxB_Matrix_import_FullR(&h, GrB_FP32, n, width, (void **)&hx, 4 * n * width, false, GrB_NULL));
	OK(GrB_Matrix_new(&w, GrB_FP32, width, width));
	OK(GxB_Matrix_import_FullR(&w, GrB_FP32, width, width, (void **)&wx, 4 * width * width, false, GrB_NULL));
	for (int t = 0; t < turns; t++) {
		OK(GrB_Matrix_new(&z, GrB_FP32, n, width));
		OK(GrB_Matrix_new(&out, GrB_FP32, n, width));
		double begin = now();
		OK(GrB_mxm(z, GrB_NULL, GrB_NULL, GrB_PLUS_TIMES_SEMIRING_FP32, norm, h, GrB_NULL));
		OK(GrB_mxm(out, GrB_NULL, GrB_NULL, GrB_PLUS_TIMES_SEMIRING_FP32, z, w, GrB_NULL));
		OK(GrB_apply(out, GrB_NULL, GrB_NULL, GrB_MAX_FP32, out, 0.0f, GrB_NULL));
		OK(GrB_wait(out, GrB_MATERIALIZE));
		printf("layer %.6f\n", now() - begin);
		OK(GrB_free(&z));
		OK(GrB_free(&out));
	}
	return 0;
}
"""

STEPS, WIDTH, TURNS, CORES = 64, 64, 5, 2


def rmat(scale, edges):
    """Edges of R-MAT without repetitions, by numpy's own random numbers."""
    rng = np.random.default_rng(1)
    count = edges << scale
    a, b = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for _ in range(scale):
        r = rng.random(count)
        a, b = 2 * a + (r >= 0.76), 2 * b + ((r >= 0.57) & (r < 0.76) | (r >= 0.95))
    pairs = np.unique(a << scale | b)
    return pairs >> scale, pairs & (1 << scale) - 1


def rows(n, a, b):
    """Edges from a to b in compressed rows."""
    order = np.lexsort((b, a))
    return np.concatenate(([0], np.cumsum(np.bincount(a, minlength=n)))), b[order]


def ranks(n, a, b):
    """PageRank by numpy, with what nodes without edges have given to all."""
    out = np.bincount(a, minlength=n)
    x = np.full(n, 1 / n)
    for step in range(1000):
        y = np.bincount(b, weights=(x / np.maximum(out, 1))[a], minlength=n)
        y = 0.85 * (y + x[out == 0].sum() / n) + 0.15 / n
        if step >= STEPS and np.abs(y - x).sum() < 1e-14:
            break
        x = y
    return y


def weft_json(weft, *args):
    run = subprocess.run([weft, "run", "network", *args, "--devices", f"cpu/{CORES}", "--repeat", str(TURNS), "--json"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def graphblas(folder, n, a, b):
    """Times of GraphBLAS by problem; none where it is not there."""
    cc = shutil.which("cc") or shutil.which("gcc")
    with open(os.path.join(folder, "peer.c"), "w") as f:
        f.write("#include <unistd.h>\n" + PEER)
    built = cc and subprocess.run([cc, "-O2", "-o", os.path.join(folder, "peer"), os.path.join(folder, "peer.c"), "-lgraphblas"], capture_output=True, text=True)
    if not cc or built.returncode:
        print("GraphBLAS: not there:", built.stderr.splitlines()[0] if cc else "no C compiler")
        return {}
    save = lambda name, x, kind: np.ascontiguousarray(x, kind).tofile(os.path.join(folder, name))
    p, c = rows(n, b, a)
    save("in_p", p, np.uint64)
    save("in_c", c, np.uint64)
    out = np.maximum(np.bincount(a, minlength=n), 1)
    save("shares", 1 / out, np.float64)
    save("start", 1 / out / 0.15, np.float64)
    off = a != b
    pairs = np.unique(np.concatenate((a[off] * n + b[off], b[off] * n + a[off], np.arange(n) * (n + 1))))
    p, c = rows(n, pairs // n, pairs % n)
    root = np.sqrt(np.diff(p))
    save("norm_p", p, np.uint64)
    save("norm_c", c, np.uint64)
    save("norm_x", 1 / (np.repeat(root, np.diff(p)) * root[c]), np.float32)
    rng = np.random.default_rng(2)
    save("features", rng.uniform(-1, 1, (n, WIDTH)), np.float32)
    save("weights", rng.uniform(-0.2, 0.2, (WIDTH, WIDTH)), np.float32)
    run = subprocess.run([os.path.join(folder, "peer"), folder, str(n), str(len(a)), str(len(c)), str(STEPS), str(WIDTH), str(TURNS), str(CORES)], capture_output=True, text=True, check=True)
    times = {}
    for line in run.stdout.splitlines():
        name, t = line.split()
        times.setdefault(name, []).append(float(t))
    return times


def compare(weft, scale):
    n = 1 << scale
    a, b = rmat(scale, 16)
    print(f"R-MAT of {n} nodes, {len(a)} edges; numpy {np.__version__}, networkx {nx.__version__}, {CORES} cores, best of {TURNS} turns")
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.mtx")
        with open(path, "w") as f:
            f.write(f"%%MatrixMarket matrix coordinate pattern general\n{n} {n} {len(a)}\n")
            f.write("".join(f"{x} {y}\n" for x, y in zip((a + 1).tolist(), (b + 1).tolist())))
        theirs = graphblas(folder, n, a, b)
        mine = {
            "pagerank": weft_json(weft, "--graph", path, "--steps", str(STEPS)),
            "layer": weft_json(weft, "--graph", path, "--problem", "layers", "--layers", "1", "--features", str(WIDTH)),
        }
    want = ranks(n, a, b)
    residual = float(re.search(r"residual ([\d.e+-]+)", mine["pagerank"]["result"]).group(1))
    for node, rank in re.findall(r"(\d+): ([\d.e+-]+)", mine["pagerank"]["result"]):
        off = abs(float(rank) / want[int(node)] - 1)
        print(f"  rank of node {node}: numpy {want[int(node)]:.6g}, weft {rank}")
        if off > 1e-5 + 20 * residual:
            wrong.append(f"rank of node {node}")
    print(f"  residual after {STEPS} steps: {residual:.3g}")
    for name, unit in (("pagerank", len(a) * STEPS), ("layer", None)):
        own = min(r["seconds"] for r in mine[name]["runs"])
        if not mine[name]["checked"]:
            wrong.append(name + " is not checked")
        line = f"  {name}: weft {1e3 * own:.1f} ms"
        if unit:
            line += f" ({unit / own / 1e6:.0f} M edges/s)"
        if name in theirs:
            peer = min(theirs[name])
            line += f", GraphBLAS {1e3 * peer:.1f} ms: weft is {peer / own:.2f} times as fast"
        print(line)
    small = graphs()
    for name, g in small.items():
        got = weft_json(weft, "--graph", name, "--problem", "closeness")["result"]
        close = nx.closeness_centrality(g)
        for node, c in re.findall(r"(\d+): ([\d.e+-]+)", got):
            if abs(float(c) - close[int(node)]) > 1e-5:
                wrong.append(f"closeness of node {node} of {name}")
    print("  closeness of " + ", ".join(small) + ": as networkx has it" if not wrong else "wrong: " + ", ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--testdata"]:
        files()
        reference()
        sys.exit()
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    sys.exit(compare(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 17))
