package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/protein/network"
	"github.com/weft-run/weft/internal/protein/partition"
	"github.com/weft-run/weft/workload/protein"
)

// proteinParts are the ways to cut a protein.
var proteinParts = []string{"clusters", "domains", "ranges"}

// cutProtein cuts a structure among devices and prints the parts.
func cutProtein(c *cobra.Command, structure, chain, by string, scores []float64, asJSON bool) error {
	if !c.Flags().Changed("by") {
		by = "clusters"
	}
	if !slices.Contains(proteinParts, by) {
		return terminal.Usagef("--by %s: a structure is cut by %s", by, strings.Join(proteinParts, ", "))
	}
	s, err := protein.Open(structure, protein.Select{Chain: chain})
	if err != nil {
		return terminal.Usage(err)
	}
	contacts, err := network.Contacts(s.Coordinates(), network.ContactCutoff)
	if err != nil {
		return terminal.Usage(err)
	}
	var p *partition.Parts
	err = terminal.Abandonable(c.Context(), func() (err error) {
		p, err = partsBy(by, s, contacts, scores)
		return err
	})
	switch {
	case c.Context().Err() != nil:
		return err
	case err != nil:
		return terminal.Usage(err)
	}
	out := proteinJSON{
		Structure: s.Name, Residues: s.Len(), By: by, Contacts: (contacts.Nonzeros() - contacts.Rows()) / 2,
		Cut: p.Cut(contacts), Bytes: p.Communication(contacts), Parts: p.Of,
	}
	rows := [][]any{{"device", "score", "residues", "share"}}
	for i, n := range p.Sizes() {
		out.Sizes = append(out.Sizes, n)
		rows = append(rows, []any{i, scores[i], n, terminal.Percent(float64(n) / float64(s.Len()))})
	}
	return terminal.Print(c, asJSON, out, func(b *bytes.Buffer) error {
		terminal.Table(b, rows)
		if by == "domains" {
			fmt.Fprintln(b, "Sizes of domains follow from the structure, whatever the scores are; the largest score gets the largest.")
		}
		fmt.Fprintf(b, "%d of %d contacts cut, %d bytes to exchange in a step\n", out.Cut, out.Contacts, out.Bytes)
		return nil
	})
}

// partsBy cuts a structure for devices with some scores.
func partsBy(by string, s *protein.Structure, contacts *network.Matrix, scores []float64) (*partition.Parts, error) {
	switch by {
	case "ranges":
		return partition.ResidueRanges(s.Len(), scores)
	case "clusters":
		return partition.ContactClusters(contacts, scores)
	}
	springs, err := network.Kirchhoff(s.Coordinates(), network.GaussianCutoff)
	if err != nil {
		return nil, err
	}
	modes, err := springs.Slowest(network.Uniform(s.Len()), len(scores))
	if err != nil {
		return nil, err
	}
	p, err := partition.StructuralDomains(modes, len(scores))
	if err != nil {
		return nil, err
	}
	return dealt(p, scores), nil
}

// dealt renumbers parts so that a larger one belongs to a device with a larger score.
func dealt(p *partition.Parts, scores []float64) *partition.Parts {
	sizes := p.Sizes()
	parts, devices := make([]int, len(sizes)), make([]int, len(scores))
	for i := range sizes {
		parts[i], devices[i] = i, i
	}
	slices.SortStableFunc(parts, func(a, b int) int { return sizes[b] - sizes[a] })
	slices.SortStableFunc(devices, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	device := make([]int, len(sizes))
	for i, part := range parts {
		device[part] = devices[i]
	}
	out := &partition.Parts{Of: make([]int, len(p.Of)), Count: p.Count}
	for i, part := range p.Of {
		out.Of[i] = device[part]
	}
	return out
}

// proteinJSON is the JSON of weft partition --structure.
type proteinJSON struct {
	Structure string `json:"structure"`
	Residues  int    `json:"residues"`
	By        string `json:"by"`
	Contacts  int    `json:"contacts"`
	Cut       int    `json:"cut"`
	Bytes     int64  `json:"bytes_per_step"`
	Sizes     []int  `json:"sizes"`
	Parts     []int  `json:"parts"` // the device of each residue
}
