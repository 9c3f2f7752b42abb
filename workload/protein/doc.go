// Package protein has protein structures and what a model of them is: it reads the C-alpha
// traces of files in the PDB and mmCIF formats ([Open], [Read]), with their chains, contacts and
// temperature factors ([Structure]), computes energies and forces of the structure-based model
// ([Model]), and compares conformations ([RMSD], [GDTTS], [Rg]). Lengths are in angstrom.
package protein
