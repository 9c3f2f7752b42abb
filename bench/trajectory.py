#!/usr/bin/env python3
"""Reads weft's trajectories with MDTraj and compares them with each other and with the report.

    apt install python3-mdtraj
    go build -o weft ./cmd/weft && bench/trajectory.py ./weft

Run from the root of the repository with Debian's own Python (/usr/bin/python3). It folds
structures that come with weft for some steps, with the same seed to a .dcd, a .pdb and an .xtc
file. It prints what it compared and ends with an error if anything is off: the number of frames, a
coordinate by more than the format's precision (half of 0.001 angstrom in .pdb and of 0.01 in .xtc), or
an RMSD to the native structure by MDTraj by more than 0.001 angstrom from weft's.
"""
import json
import os
import subprocess
import sys
import tempfile

import mdtraj
import numpy as np

weft = sys.argv[1]
wrong = []


def fold(out, *args):
    done = subprocess.run([weft, "run", "fold", "--devices", "cpu/2", "--calibrate", "off", "--seed", "7", "--out", out, "--json", *args],
                          check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def compare(name, native, folder, *args):
    """Frames of a structure in both formats, and their RMSD."""
    dcd, pdb, xtc, page = (os.path.join(folder, name + end) for end in (".dcd", ".pdb", ".xtc", ".html"))
    report = fold(dcd, "--structure", native, "--html", page, *args)
    fold(pdb, "--structure", native, *args)
    fold(xtc, "--structure", native, *args)
    of_pdb = mdtraj.load(pdb)
    of_dcd = mdtraj.load_dcd(dcd, top=of_pdb.topology)
    of_xtc = mdtraj.load_xtc(xtc, top=of_pdb.topology)
    crystal = mdtraj.load(native)
    crystal = crystal.atom_slice([a.index for a in crystal.topology.atoms if a.name == "CA" and a.residue.chain.index == 0])
    if not of_dcd.n_frames == of_pdb.n_frames == of_xtc.n_frames or of_dcd.n_atoms != crystal.n_atoms:
        wrong.append(f"{name}: {of_dcd.n_frames} frames of {of_dcd.n_atoms} atoms, {of_pdb.n_frames} of {of_pdb.n_atoms}")
        return
    apart = 10 * np.abs(of_dcd.xyz.astype(float) - of_pdb.xyz).max()  # MDTraj has nanometres
    packed = 10 * np.abs(of_dcd.xyz.astype(float) - of_xtc.xyz).max()
    reach = 10 * np.abs(of_pdb.xyz).max()
    # weft's RMSD of each frame is on its page, by replica and temperature.
    with open(page, encoding="utf-8") as f:
        text = f.read()
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    lowest = data["temperatures"][0]
    mine = np.array([next(r["rmsd"][i] for r in data["replicas"] if abs(r["temperature"][i] - lowest) < 1e-4) for i in range(len(data["steps"]))])
    theirs = 10 * mdtraj.rmsd(of_dcd, crystal).astype(float)
    off = np.abs(theirs - mine).max() if len(theirs) == len(mine) else np.inf
    print(f"{name}: {of_dcd.n_frames} frames of {of_dcd.n_atoms} atoms, .dcd and .pdb differ by {apart:.5f}, .dcd and .xtc by {packed:.5f}, of {reach:.0f} angstrom; "
          f"RMSD {theirs.min():.3f} to {theirs.max():.3f}, off by {off:.5f}")
    # Half a unit of the last place of .pdb, and what float32 has in nanometres.
    if not apart <= 5e-4 + 2e-7 * reach or not packed <= 5e-3 + 2e-7 * reach or not off <= 1e-3:
        wrong.append(f"{name}: coordinates differ by {apart} and {packed}, RMSD by {off}")
    if len(report["replicas"]) != len(data["replicas"]):
        wrong.append(f"{name}: {len(data['replicas'])} replicas on the page")


with tempfile.TemporaryDirectory() as folder:
    for name in ("1crn", "1ubi"):
        native = f"workload/protein/testdata/{name}.pdb"
        compare(name, native, folder, "--steps", "100000", "--frame", "1000", "--replicas", "8", "--temperature", "0.5-0.8")
if wrong:
    sys.exit("off: " + "; ".join(wrong))
print("all agree")
