// Package protein reads protein structures: the C-alpha traces of files in the PDB and mmCIF
// formats ([Open], [Read]), their chains, contacts and temperature factors ([Structure]).
// Lengths are in angstrom.
package protein
