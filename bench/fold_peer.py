#!/usr/bin/env python3
"""Compares weft's folding with OpenMM and GROMACS: the same model of 1CRN, on one and on two cores.

    apt install python3-simtk libopenmm-plugins gromacs
    go build -o weft ./cmd/weft && bench/fold_peer.py ./weft

Run from the root of the repository with Debian's own Python (/usr/bin/python3) on a machine of two
cores. The model is built here anew from the file of the structure: bonds, angles, dihedrals, contacts
of 12-10 and repulsion of the other pairs, of Langevin dynamics with steps of 0.005 and friction 0.2.

First the forces: OpenMM in double precision computes the energy and the forces of one conformation,
GROMACS in mixed precision those of the same. They are compared with those in
workload/protein/fold/testdata/openmm.json, with which weft's tests compare its kernels (--write
writes that file anew). The limits are 1e-9 of the largest force for OpenMM, which runs as it did, and
1e-5 for GROMACS.

Then the speed: steps a second of all replicas. Each peer runs from a straight chain, one replica on
one core, one each on two, and one on two threads; weft runs eight replicas a core, which it advances
together. The peers and weft take turns, and each figure is the best of two runs.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

KB = 0.00831446261815324  # kJ/mol/K: an energy of 1 is 1 kJ/mol, a length of 1 is 1 nm
DT, FRICTION, TEMPERATURE = 0.005, 0.2, 0.7
SAVED = "workload/protein/fold/testdata/openmm.json"


def native():
    """The C-alpha atoms of 1CRN, of which it has one form each."""
    with open("workload/protein/testdata/1crn.pdb", encoding="ascii") as f:
        return np.array([[float(l[30:38]), float(l[38:46]), float(l[46:54])] for l in f if l.startswith("ATOM") and l[12:16] == " CA "])


def dihedral(a, b, c, d):
    u, v, w = b - a, c - b, d - c
    m, n = np.cross(u, v), np.cross(v, w)
    return math.atan2(np.linalg.norm(v) * (u @ n), m @ n)


class Model:
    """The terms of the potential, each with its native value."""

    def __init__(self, x):
        n = len(x)
        self.native = x
        self.bonds = [(i, np.linalg.norm(x[i + 1] - x[i])) for i in range(n - 1)]
        self.angles = []
        for i in range(n - 2):
            u, w = x[i] - x[i + 1], x[i + 2] - x[i + 1]
            self.angles.append((i, math.acos(u @ w / np.linalg.norm(u) / np.linalg.norm(w))))
        self.dihedrals = [(i, dihedral(*x[i:i + 4])) for i in range(n - 3)]
        d = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))
        self.contacts = [(i, j, d[i, j]) for i in range(n) for j in range(i + 4, n) if d[i, j] < 8]
        apart = {(i, j) for i, j, _ in self.contacts} | {(i, j) for i in range(n) for j in range(i + 1, min(i + 4, n))}
        self.apart = sorted(apart)  # pairs that do not repel each other


def conformation(x):
    """One near the native structure, as weft's test has it."""
    return x + 0.3 * np.sin(1 + 7 * np.arange(x.size)).reshape(x.shape)


def straight(model, seed):
    """A chain on a line, each bead off it by a fifth of an angstrom or so."""
    x = np.zeros_like(model.native)
    x[1:, 0] = np.cumsum([r for _, r in model.bonds])
    return x + 0.2 * np.random.default_rng(seed).standard_normal(x.shape)


def openmm_system(mm, model):
    s = mm.System()
    for _ in model.native:
        s.addParticle(1)
    bonds, angles, dihedrals = mm.HarmonicBondForce(), mm.HarmonicAngleForce(), mm.PeriodicTorsionForce()
    for i, r in model.bonds:
        bonds.addBond(i, i + 1, r, 200)
    for i, a in model.angles:
        angles.addAngle(i, i + 1, i + 2, a, 40)
    for i, a in model.dihedrals:
        dihedrals.addTorsion(i, i + 1, i + 2, i + 3, 1, a + math.pi, 1)
        dihedrals.addTorsion(i, i + 1, i + 2, i + 3, 3, 3 * a + math.pi, 0.5)
    contacts = mm.CustomBondForce("5*q^6-6*q^5; q=(s/r)^2")
    contacts.addPerBondParameter("s")
    for i, j, d in model.contacts:
        contacts.addBond(i, j, [d])
    rest = mm.CustomNonbondedForce("(4/r)^12")
    rest.setNonbondedMethod(mm.CustomNonbondedForce.CutoffNonPeriodic)
    rest.setCutoffDistance(12)
    for _ in model.native:
        rest.addParticle([])
    for i, j in model.apart:
        rest.addExclusion(i, j)
    for f in (bonds, angles, dihedrals, contacts, rest):
        s.addForce(f)
    return s


def openmm_forces(model, x):
    import openmm as mm
    c = mm.Context(openmm_system(mm, model), mm.VerletIntegrator(DT), mm.Platform.getPlatformByName("Reference"))
    c.setPositions(x.tolist())
    s = c.getState(getEnergy=True, getForces=True)
    return s.getPotentialEnergy()._value, np.array([list(f) for f in s.getForces()._value])


def openmm_run(model, threads, steps, seed):
    """Seconds that steps take. It is called in a process of its own."""
    import openmm as mm
    move = mm.LangevinMiddleIntegrator(TEMPERATURE / KB, FRICTION, DT)
    move.setRandomNumberSeed(seed)
    c = mm.Context(openmm_system(mm, model), move, mm.Platform.getPlatformByName("CPU"), {"Threads": str(threads)})
    c.setPositions(straight(model, seed).tolist())
    c.setVelocitiesToTemperature(TEMPERATURE / KB, seed)
    move.step(steps // 20)
    begin = time.perf_counter()
    move.step(steps)
    x = c.getState(getEnergy=True).getPotentialEnergy()._value
    took = time.perf_counter() - begin
    assert math.isfinite(x), x
    return took


def gromacs_tables(model, folder):
    """Writes a table for each contact, and returns the names of the files."""
    r = np.arange(0, 200, 0.01)
    for k, (_, _, s) in enumerate(model.contacts):
        at = np.maximum(r, 0.4 * s)
        q = (s / at) ** 2
        np.savetxt(os.path.join(folder, f"table_b{k}.xvg"), np.column_stack([r, q ** 5 * (5 * q - 6), 60 * q ** 5 * (q - 1) / at]), fmt="%.2f %.12e %.12e")
    model.tables = [os.path.join(folder, f"table_b{k}.xvg") for k in range(len(model.contacts))]


def gromacs_files(model, folder, x, steps, seed):
    """Writes what GROMACS reads. A contact is a bond by table, since it has no 12-10 pairs."""
    n, at = len(x), lambda name: os.path.join(folder, name)
    with open(at("topol.top"), "w") as f:
        print("[ defaults ]\n1 1 no 1.0 1.0\n[ atomtypes ]\nCA 1.0 0.0 A 0.0", repr(4.0 ** 12), file=f)
        print("[ moleculetype ]\nchain 3\n[ atoms ]", file=f)
        for i in range(n):
            print(i + 1, "CA", i + 1, "ALA CA", i + 1, "0.0 1.0", file=f)
        print("[ bonds ]", file=f)
        for i, r in model.bonds:
            print(i + 1, i + 2, 1, f"{r:.12g}", 200, file=f)
        for k, (i, j, _) in enumerate(model.contacts):
            print(i + 1, j + 1, 9, k, 1, file=f)
        print("[ angles ]", file=f)
        for i, a in model.angles:
            print(i + 1, i + 2, i + 3, 1, f"{math.degrees(a):.12g}", 40, file=f)
        print("[ dihedrals ]", file=f)
        for i, a in model.dihedrals:
            for m, k in ((1, 1.0), (3, 0.5)):
                print(i + 1, i + 2, i + 3, i + 4, 9, f"{math.degrees(m * a + math.pi):.12g}", k, m, file=f)
        print("[ exclusions ]", file=f)
        for i, j, _ in model.contacts:
            print(i + 1, j + 1, file=f)
        print("[ system ]\nchain\n[ molecules ]\nchain 1", file=f)
    with open(at("conf.gro"), "w") as f:
        print(f"chain\n{n}", file=f)
        for i, p in enumerate(x - x.min(0) + 2):
            print(f"{i + 1:5d}ALA     CA{i + 1:5d}" + "".join(f"{c:16.9f}" for c in p), file=f)
        print("400 400 400", file=f)
    with open(at("grompp.mdp"), "w") as f:
        print(f"""integrator = sd
nsteps = {steps}
dt = {DT}
ld-seed = {seed}
tc-grps = System
tau-t = {1 / FRICTION}
ref-t = {TEMPERATURE / KB}
gen-vel = yes
gen-temp = {TEMPERATURE / KB}
gen-seed = {seed}
comm-mode = none
pbc = xyz
cutoff-scheme = verlet
nstlist = 20
verlet-buffer-tolerance = -1
rlist = 15
rvdw = 12
rcoulomb = 12
vdwtype = cut-off
vdw-modifier = none
coulombtype = cut-off
coulomb-modifier = none
nstxout = 0
nstvout = 0
nstfout = {steps or 1}
nstlog = 0
nstenergy = {max(steps, 100) // 100 * 100}
nstcalcenergy = 100
nstxout-compressed = 0""", file=f)
    done = subprocess.run(["gmx", "-quiet", "grompp", "-maxwarn", "5"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        sys.exit("gmx grompp: " + done.stderr[-2000:])


def gromacs_start(folder, tables, *args, on=()):
    return subprocess.Popen([*on, "gmx", "-quiet", "mdrun", "-ntmpi", "1", "-tableb", *tables, *args], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def gromacs_end(p):
    out = p.communicate()[0]
    if p.returncode:
        sys.exit("gmx mdrun: " + out[-2000:])


def gromacs_forces(model, x):
    with tempfile.TemporaryDirectory() as folder:
        gromacs_files(model, folder, x, 0, 1)
        gromacs_end(gromacs_start(folder, model.tables, "-ntomp", "1"))
        dump = subprocess.run(["gmx", "-quiet", "dump", "-f", "traj.trr"], cwd=folder, check=True, capture_output=True, text=True).stdout
        f = re.findall(r"f\[ *\d+\]=\{([^}]*)\}", dump)
        return gromacs_energy(folder), np.array([[float(v) for v in row.split(",")] for row in f])


def gromacs_energy(folder):
    out = subprocess.run(["gmx", "-quiet", "energy", "-dp", "-f", "ener.edr"], cwd=folder, input="Potential\n\n", check=True, capture_output=True, text=True).stdout
    return float(re.search(r"^Potential +(\S+)", out, re.M).group(1))


def gromacs_rate(model, processes, threads, steps):
    folders = [tempfile.TemporaryDirectory() for _ in range(processes)]
    for k, f in enumerate(folders):
        gromacs_files(model, f.name, straight(model, k + 1), steps, k + 1)
    running = [gromacs_start(f.name, model.tables, "-ntomp", str(threads), "-pin", "off", "-noconfout", on=("taskset", "-c", cpus(k, threads))) for k, f in enumerate(folders)]
    for p in running:
        gromacs_end(p)
    total = 0
    for f in folders:
        with open(os.path.join(f.name, "md.log"), encoding="utf-8") as log:
            wall = float(re.search(r"Time: +\S+ +(\S+)", log.read()).group(1))
        total += steps / wall
        f.cleanup()
    return total


def cpus(process, threads):
    """The cores of a process, as taskset wants them."""
    return f"{process * threads}-{process * threads + threads - 1}"


def openmm_rate(processes, threads, steps):
    running = [subprocess.Popen(["taskset", "-c", cpus(k, threads), sys.executable, __file__, "--openmm", str(threads), str(steps), str(k + 1)], stdout=subprocess.PIPE, text=True) for k in range(processes)]
    return sum(steps / float(p.communicate()[0]) for p in running)


def weft_rate(weft, cores, steps):
    done = subprocess.run(["taskset", "-c", f"0-{cores - 1}", weft, "run", "fold", "--devices", f"cpu/{cores}", "--replicas", str(8 * cores), "--steps", str(steps), "--frame", "5000",
                           "--temperature", str(TEMPERATURE), "--check=false", "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["steps_per_second"]


def forces(model, write):
    wrong = []
    x = conformation(model.native)
    energy, force = openmm_forces(model, x)
    if write:
        with open(SAVED, "w") as f:
            json.dump({"energy": energy, "forces": force.ravel().tolist()}, f)
            print(file=f)
    with open(SAVED) as f:
        saved = json.load(f)
    largest = np.abs(force).max()
    peers = [("OpenMM, double precision", energy, force, 1e-9)]
    if not write:
        peers.append(("GROMACS, mixed precision", *gromacs_forces(model, x), 1e-5))
    for name, e, f, limit in peers:
        off_e = abs(e - saved["energy"]) / abs(saved["energy"])
        off_f = np.abs(f.ravel() - saved["forces"]).max() / largest
        print(f"{name}: energy {e:.9f}, off by {off_e:.1e}, forces by {off_f:.1e} of the largest, {largest:.1f}")
        if not (off_e <= limit and off_f <= limit):
            wrong.append(name)
    return wrong


def speeds(model, weft):
    def all_of(weft_steps, peer_steps, openmm_steps):
        return {
            "weft, one core, 8 replicas": lambda: weft_rate(weft, 1, weft_steps),
            "weft, two cores, 16 replicas": lambda: weft_rate(weft, 2, weft_steps),
            "GROMACS, one core, 1 replica": lambda: gromacs_rate(model, 1, 1, peer_steps),
            "GROMACS, two cores, 2 replicas": lambda: gromacs_rate(model, 2, 1, peer_steps),
            "GROMACS, two cores, 1 replica": lambda: gromacs_rate(model, 1, 2, peer_steps),
            "OpenMM, one core, 1 replica": lambda: openmm_rate(1, 1, openmm_steps),
            "OpenMM, two cores, 2 replicas": lambda: openmm_rate(2, 1, openmm_steps),
        }
    rates = {}
    for _ in range(2):
        for name, run in all_of(100_000, 30_000, 5_000).items():
            rates[name] = max(rates.get(name, 0), run())
    for name, rate in rates.items():
        of = rates["weft, two cores, 16 replicas" if "two cores" in name else "weft, one core, 8 replicas"]
        print(f"{name}: {rate:,.0f} step/s, weft has {of / rate:.3g} times as many", flush=True)
    one, two = rates["weft, one core, 8 replicas"], rates["weft, two cores, 16 replicas"]
    print(f"weft, efficiency of two cores: {100 * two / one / 2:.1f} %")


def main():
    if sys.argv[1] == "--openmm":
        print(openmm_run(Model(native()), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
        return
    model = Model(native())
    print(f"1CRN: {len(model.native)} beads, {len(model.contacts)} contacts")
    with tempfile.TemporaryDirectory() as folder:
        gromacs_tables(model, folder)
        if wrong := forces(model, "--write" in sys.argv):
            sys.exit("off: " + "; ".join(wrong))
        if "--write" not in sys.argv:
            speeds(model, sys.argv[1])


main()
