#!/usr/bin/python3
"""Graphs beside networkx, numpy and SuiteSparse:GraphBLAS.

    bench/network.py              compares results and times, on this machine
    bench/network.py --testdata   writes workload/network/testdata anew

It needs python3-networkx and python3-numpy; GraphBLAS is timed where libgraphblas-dev and a C
compiler are there (Debian 12: 7.4.0). Everything is run one after the other.
"""
import json
import os
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


def medoids(dist, k, steps):
    """k-medoids by turns from nodes with numbers equally far apart; of equal ones the first counts."""
    at = [c * len(dist) // k for c in range(k)]
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
        at, label = medoids(dist, 3, 8)
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


if __name__ == "__main__":
    if sys.argv[1:] == ["--testdata"]:
        files()
        reference()
        sys.exit()
