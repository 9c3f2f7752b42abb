package protein_test

import (
	"fmt"
	"log"

	"github.com/weft-run/weft/workload/protein"
)

// Crambin comes with the package; a file is opened the same way.
func ExampleOpen() {
	s, err := protein.Open("1CRN", protein.Select{})
	if err != nil {
		log.Fatal(err)
	}
	m, err := protein.ModelOf(s)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d residues from %v to %v, %d contacts, native energy %.1f, Rg %.1f\n",
		s.Len(), s.Residues[0], s.Residues[s.Len()-1], len(m.Contacts), m.Energy(m.Native), protein.Rg(m.Native))
	// Output: 46 residues from THR A 1 to ASN A 46, 89 contacts, native energy -89.0, Rg 9.7
}
