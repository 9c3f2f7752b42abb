#!/usr/bin/env python3
"""Compares weft's elastic networks with ProDy and its partitions of proteins with METIS.

    apt install python3-prody metis
    npm pack bio-pv@1.8.1 && tar xzf bio-pv-1.8.1.tgz
    go build -o weft ./cmd/weft && bench/protein.py ./weft package/pdbs

Run from the root of the repository with Debian's own Python (/usr/bin/python3). It prints what
it compared and ends with an error if anything is off: eigenvalues by more than 1e-5, B-factor
correlations by more than 0.002, or a cut that has more than 1.3 times METIS's contacts.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

warnings.simplefilter("ignore")
import numpy as np
import prody

prody.confProDy(verbosity="none")
weft, pdbs = sys.argv[1], sys.argv[2]
wrong = []


def weft_json(*args):
    return json.loads(subprocess.run([weft, *args, "--json"], check=True, capture_output=True, text=True).stdout)


def alphas(path):
    """The C-alpha atoms of the first chain."""
    atoms = prody.parsePDB(path).select("name CA and protein")
    return atoms.select("chain " + atoms.getChids()[0])


def networks(name, path):
    """Matrices, eigenvalues and B-factors by ProDy beside weft's."""
    ca = alphas(path)
    gnm, anm = prody.GNM(name), prody.ANM(name)
    gnm.buildKirchhoff(ca, cutoff=10.0)
    anm.buildHessian(ca, cutoff=15.0)
    print(f"{name}: {len(ca)} residues, ProDy {prody.__version__}")
    for kind, model, matrix in (("gnm", gnm, gnm.getKirchhoff()), ("anm", anm, anm.getHessian())):
        model.calcModes(20)
        values = model.getEigvals()
        r = np.corrcoef(prody.calcSqFlucts(model), ca.getBetas())[0, 1]
        result = weft_json("run", "elastic", "--structure", path, "--network", kind, "--devices", "cpu/2", "--repeat", "1")["result"]
        shown = [float(v) for v in re.findall(r"eigenvalues ([\d.e-]+), ([\d.e-]+), ([\d.e-]+) … ([\d.e-]+)", result)[0]]
        theirs = [values[0], values[1], values[2], values[19]]
        mine = float(re.search(r"r = ([-\d.]+)", result).group(1))
        print(f"  {kind}: {np.count_nonzero(matrix)} entries, trace {np.trace(matrix):.9g}, squares {np.square(matrix).sum():.12g}")
        print("       eigenvalues", " ".join(f"{v:.6g}" for v in theirs), "weft", *shown)
        print(f"       B-factors r = {r:.4f}, weft {mine}")
        if not np.allclose(theirs, shown, rtol=1e-5) or abs(r - mine) > 0.002:
            wrong.append(f"{name} {kind}")


def metis(graph, parts, method):
    out = subprocess.run(["gpmetis", "-ptype=" + method, graph, str(parts)], capture_output=True, text=True).stdout
    return int(re.search(r"Edgecut: (\d+)", out).group(1))


def cuts(name, path):
    """Contacts that partitions cut, beside the better of METIS's two methods."""
    x = alphas(path).getCoords()
    near = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1)) < 8
    np.fill_diagonal(near, False)
    with tempfile.TemporaryDirectory() as folder:
        graph = os.path.join(folder, "contacts")
        with open(graph, "w") as f:
            print(len(x), near.sum() // 2, file=f)
            for row in near:
                print(*(np.flatnonzero(row) + 1), file=f)
        for parts in (2, 3, 4, 8):
            theirs = min(metis(graph, parts, m) for m in ("rb", "kway"))
            scores = ",".join(["1"] * parts)
            mine = {by: weft_json("partition", "--structure", path, "--scores", scores, "--by", by) for by in ("clusters", "ranges")}
            got = mine["clusters"]
            of = np.array(got["parts"])
            counted = int((near & (of[:, None] != of[None])).sum() // 2)
            print(f"  {name} in {parts}: METIS {theirs}, clusters {got['cut']} of sizes {got['sizes']}, ranges {mine['ranges']['cut']}")
            if got["cut"] > 1.3 * theirs or counted != got["cut"]:
                wrong.append(f"{name} in {parts}: {got['cut']}, counted {counted}, METIS {theirs}")


networks("1CRN", "workload/protein/testdata/1crn.pdb")
networks("1UBI", "workload/protein/testdata/1ubi.pdb")
networks("4AKE", "internal/protein/partition/testdata/4ake_a.pdb")
for name in ("1crn", "1ake", "4ake", "2por", "1rb8"):
    cuts(name, os.path.join(pdbs, name + ".pdb"))
if wrong:
    sys.exit("off: " + "; ".join(wrong))
print("all agree")
