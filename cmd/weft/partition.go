package main

import (
	"bytes"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

func newPartition() *cobra.Command {
	var (
		by     string
		items  int64
		scores []float64
		utils  []float64
		asJSON bool

		structure, chain string
	)
	c := &cobra.Command{
		Use:   "partition",
		Short: "Cut a number of equal items, or a protein, among devices",
		Long: `Cut a number of equal items among devices. With --structure cut the residues of
a protein: into clusters with few contacts between them, which is what devices
exchange, into domains that move as one, or into ranges of the chain. Sizes of
domains follow from the structure; a device with a larger score gets a larger
domain.`,
		Example: `  weft partition --items 10000 --scores 95,80
  weft partition --items 10000 --scores 95,80 --util 0.8,0.3 --by dynamic
  weft partition --structure 1CRN --scores 1,1 --by clusters`,
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(scores) == 0 {
				return terminal.Usagef("--scores is missing: one number for each device, as in --scores 95,80")
			}
			if err := checkShares(items, scores, utils); err != nil {
				return err
			}
			if structure != "" {
				if c.Flags().Changed("items") || len(utils) > 0 {
					return terminal.Usagef("--structure goes with neither --items nor --util")
				}
				return cutProtein(c, structure, chain, by, scores, asJSON)
			}
			if chain != "" {
				return terminal.Usagef("--chain %s: it goes with --structure", chain)
			}
			cut, err := sched.NewPartitioner(by)
			if err != nil {
				return terminal.Usage(err)
			}
			shares := make([]sched.Share, len(scores))
			for i, s := range scores {
				shares[i] = sched.Share{Device: machine.DeviceID(i), Rate: s}
				if len(utils) > 0 {
					shares[i].Util = utils[i]
				}
			}
			p, err := cut(sched.Items{Extent: items}, shares)
			if err != nil {
				return terminal.Usage(err)
			}
			out := partitionJSON{Partitioner: by, Items: items, Balance: p.Balance}
			rows := [][]any{{"device", "score", "from", "to", "items", "share"}}
			for i, r := range p.Ranges {
				out.Devices = append(out.Devices, partJSON{i, scores[i], r.Lo, r.Hi, r.Len()})
				rows = append(rows, []any{i, scores[i], r.Lo, r.Hi, r.Len(), terminal.Percent(float64(r.Len()) / float64(max(items, 1)))})
			}
			return terminal.Print(c, asJSON, out, func(b *bytes.Buffer) error {
				terminal.Table(b, rows)
				fmt.Fprintf(b, "balance %s\n", terminal.Percent(p.Balance))
				return nil
			})
		},
	}
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON instead of text")
	f.StringVar(&by, "by", "proportional", "partitioner: dynamic, equal, latency, memory or proportional; for a protein clusters, domains or ranges (clusters)")
	f.StringVar(&structure, "structure", "", "protein: 1CRN, 1UBI, BPTI, or a file in PDB or mmCIF format")
	f.StringVar(&chain, "chain", "", "chain of the structure, several as A,B, or all (the first)")
	f.Int64Var(&items, "items", 10_000, "number of items")
	f.Float64SliceVar(&scores, "scores", nil, "rate or score of each device")
	f.Float64SliceVar(&utils, "util", nil, "how busy each device is already, 0 to 1 (for dynamic)")
	terminal.Complete(c, "by", func() []string { return append(sched.PartitionerNames(), proteinParts...) })
	return c
}

// checkShares finds mistakes in the flags.
func checkShares(items int64, scores, utils []float64) error {
	if items < 0 {
		return terminal.Usagef("--items %d: it must not be negative", items)
	}
	if len(utils) > 0 && len(utils) != len(scores) {
		return terminal.Usagef("--util has %s for %s", terminal.Count(len(utils), "number"), terminal.Count(len(scores), "score"))
	}
	for _, s := range scores {
		if !(s >= 0) || math.IsInf(s, 1) { // written so that NaN fails
			return terminal.Usagef("--scores %v: it must be a finite number, not negative", s)
		}
	}
	for _, u := range utils {
		if !(u >= 0 && u <= 1) {
			return terminal.Usagef("--util %v: it must be from 0 to 1", u)
		}
	}
	return nil
}

// The JSON of weft partition.
type (
	partitionJSON struct {
		Partitioner string     `json:"partitioner"`
		Items       int64      `json:"items"`
		Balance     float64    `json:"balance"`
		Devices     []partJSON `json:"devices"`
	}
	partJSON struct {
		Device int     `json:"device"`
		Score  float64 `json:"score"`
		Lo     int64   `json:"from"`
		Hi     int64   `json:"to"` // the first item that is not in it
		Items  int64   `json:"items"`
	}
)
