package protein

// Memory is the size in bytes of one conformation of a protein with everything computed of it
// kept, term by term.
type Memory struct {
	Coordinates int64 // three float64 for each atom
	Phases      int64 // a complex number for each pair of residues
	Contacts    int64 // 4 bytes for each pair, and a tenth of that above 1000 residues
	Landscape   int64 // 1000 float64 for each residue
}

// MemoryOf returns the memory of a protein with some residues and atoms.
func MemoryOf(residues int, atoms float64) Memory {
	n := float64(residues)
	m := Memory{Coordinates: int64(24 * atoms), Phases: int64(16 * n * n), Contacts: int64(4 * n * n), Landscape: int64(8000 * n)}
	if residues > 1000 {
		m.Contacts = int64(0.4 * n * n)
	}
	return m
}

// Total is the sum of all terms.
func (m Memory) Total() int64 { return m.Coordinates + m.Phases + m.Contacts + m.Landscape }

// ContactRows is the memory of real contacts in compressed rows: 4 bytes for each residue and
// one more, and 8 for each contact, which is in two rows.
func ContactRows(residues, contacts int) int64 { return 4*int64(residues+1) + 8*int64(contacts) }
