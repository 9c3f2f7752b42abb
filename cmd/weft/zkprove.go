package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/workload/zk"
)

// zkProof is a call of weft zk prove.
type zkProof struct {
	c           *cobra.Command
	dir         string
	in          []string
	out, public string
	keys        *zk.Keys

	proofTo, publicTo *terminal.Output // publicTo is nil for many proofs
}

// provedLine is a line of a file of many proofs.
type provedLine struct {
	Witness int               `json:"witness"`
	Proof   []byte            `json:"proof,omitempty"`
	Public  map[string]string `json:"public,omitempty"`
	Error   string            `json:"error,omitempty"`
}

// read reads the witnesses of all files.
func (z *zkProof) read() (all []zk.Witness, err error) {
	for _, name := range z.in {
		text, err := safefile.ReadInput(name, maxWitness)
		if err != nil {
			return all, terminal.Usage(terminal.FileError(name, err))
		}
		defer clear(text)
		if trimmed := bytes.TrimSpace(text); len(z.in) == 1 && json.Valid(trimmed) && !bytes.HasPrefix(trimmed, []byte("[")) || len(trimmed) == 0 {
			w, err := zk.ReadWitness(z.keys.Circuit, text)
			if err != nil {
				return all, terminal.Usage(fmt.Errorf("%s: %w", name, err))
			}
			return []zk.Witness{w}, nil
		}
		more, err := zk.ReadWitnesses(z.keys.Circuit, text)
		if err != nil {
			return all, terminal.Usage(fmt.Errorf("%s: %w", name, err))
		}
		all = append(all, more...)
	}
	if len(all) == 0 {
		return nil, terminal.Usagef("%s has no witness", z.in[0])
	}
	return all, nil
}

// open opens the files that are written, before anything is proved.
func (z *zkProof) open(one bool) (err error) {
	z.out = cmp.Or(z.out, map[bool]string{true: "proof.bin", false: "proofs.jsonl"}[one])
	if !one && z.c.Flags().Changed("public") {
		return terminal.Usagef("--public is for one proof: the file of many has the public values of each")
	}
	if z.proofTo, err = terminal.OpenOutput(z.c, z.out); err != nil {
		return err
	}
	outputs := []*terminal.Output{z.proofTo}
	if one {
		if z.publicTo, err = terminal.OpenOutput(z.c, z.public); err != nil {
			return errors.Join(err, z.proofTo.Close())
		}
		outputs = append(outputs, z.publicTo)
	}
	if err := terminal.Distinct(outputs, append(zk.KeyFiles(z.dir), z.in...)...); err != nil {
		z.close()
		return err
	}
	return nil
}

// close closes the files.
func (z *zkProof) close() {
	z.proofTo.Close()
	if z.publicTo != nil {
		z.publicTo.Close()
	}
}

// prove proves all witnesses and writes the proofs.
func (z *zkProof) prove(s *settings) error {
	options, err := s.options()
	if err != nil {
		return err
	}
	if z.keys, err = readKeys(z.dir, true); err != nil {
		return err
	}
	all, err := z.read()
	defer func() {
		for _, w := range all {
			zk.Forget(w)
		}
	}()
	if err != nil {
		return err
	}
	write := z.writeMany
	if len(all) == 1 {
		write = z.writeOne
	}
	if err := z.open(len(all) == 1); err != nil {
		return err
	}
	defer z.close()
	rt, err := open(z.c.Context(), options, z.c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer rt.Close()
	prover, err := zk.NewProver(rt, z.keys.Circuit, z.keys.Proving)
	if err != nil {
		return err
	}
	defer prover.Release()
	begun := time.Now()
	var results []zk.Proved
	for r := range prover.ProveAll(z.c.Context(), func(yield func(zk.Witness, error) bool) {
		for _, w := range all {
			if !yield(w, nil) {
				return
			}
		}
	}) {
		if r.Err == nil {
			r.Err = z.verify(r)
		}
		results = append(results, r)
	}
	if err := z.c.Context().Err(); err != nil {
		return err
	}
	return write(results, time.Since(begun))
}

// verify has gnark verify a proof.
func (z *zkProof) verify(r zk.Proved) error {
	public, err := r.Witness.Public()
	if err != nil {
		return err
	}
	return zk.Verify(z.keys.Verifying, r.Proof, public)
}

// writeOne writes a proof and, in a file of their own, its public values.
func (z *zkProof) writeOne(results []zk.Proved, took time.Duration) error {
	r := results[0]
	if errors.Is(r.Err, zk.ErrWitness) {
		return terminal.Usage(fmt.Errorf("%s: %w", z.in[0], r.Err))
	} else if r.Err != nil {
		return r.Err
	}
	values, err := zk.WritePublic(z.keys.Circuit, r.Witness)
	if err != nil {
		return err
	}
	if err := z.proofTo.Replace(func(w io.Writer) error {
		_, err := r.Proof.WriteTo(w)
		return err
	}); err != nil {
		return err
	}
	if err := z.publicTo.Replace(func(w io.Writer) error {
		_, err := w.Write(values)
		return err
	}); err != nil {
		return err
	}
	return terminal.Print(z.c, false, nil, func(b *bytes.Buffer) error {
		fmt.Fprintf(b, "Proved %d constraints in %s; gnark accepts the proof.\nThe proof is in %s, the public values are in %s.\n", z.keys.Circuit.GetNbConstraints(), terminal.Short(took), z.out, z.public)
		return nil
	})
}

// writeMany writes a line for each proof.
func (z *zkProof) writeMany(results []zk.Proved, took time.Duration) error {
	failed := 0
	if err := z.proofTo.Replace(func(w io.Writer) error {
		e := json.NewEncoder(w)
		for i, r := range results {
			line := provedLine{Witness: i}
			if r.Err != nil {
				failed++
				line.Error = r.Err.Error()
			} else {
				var b bytes.Buffer
				if _, err := r.Proof.WriteTo(&b); err != nil {
					return err
				}
				line.Proof = b.Bytes()
				var err error
				if line.Public, err = zk.PublicValues(z.keys.Circuit, r.Witness); err != nil {
					return err
				}
			}
			if err := e.Encode(line); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if failed > 0 {
		i := slices.IndexFunc(results, func(r zk.Proved) bool { return r.Err != nil })
		return fmt.Errorf("%d of %d witnesses were not proved; witness %d: %w; %s has the others", failed, len(results), i, results[i].Err, z.out)
	}
	return terminal.Print(z.c, false, nil, func(b *bytes.Buffer) error {
		fmt.Fprintf(b, "Proved %d witnesses of %d constraints in %s; gnark accepts the proofs.\nThey are in %s, with their public values.\n", len(results), z.keys.Circuit.GetNbConstraints(), terminal.Short(took), z.out)
		return nil
	})
}

// verifyLines verifies a file of many proofs.
func verifyLines(c *cobra.Command, keys *zk.Keys, file string, text []byte) error {
	n := 0
	for d := json.NewDecoder(bytes.NewReader(text)); ; n++ {
		var line provedLine
		if err := d.Decode(&line); err == io.EOF {
			break
		} else if err != nil {
			return terminal.Usage(fmt.Errorf("%s: line %d: %w", file, n+1, err))
		}
		if err := verifyLine(keys, &line); err != nil {
			return fmt.Errorf("%s: line %d: %w", file, n+1, err)
		}
	}
	return terminal.Print(c, false, nil, func(b *bytes.Buffer) error {
		fmt.Fprintf(b, "gnark accepts all %d proofs.\n", n)
		return nil
	})
}

// verifyLine verifies one of many proofs.
func verifyLine(keys *zk.Keys, line *provedLine) error {
	if line.Error != "" {
		return fmt.Errorf("there is no proof: %s", terminal.OneLine(line.Error))
	}
	text, err := json.Marshal(line.Public)
	if err != nil {
		return err
	}
	values, err := zk.ReadPublic(keys.Circuit, text)
	if err != nil {
		return err
	}
	p, err := zk.ReadProof(bytes.NewReader(line.Proof))
	if err != nil {
		return err
	}
	return zk.Verify(keys.Verifying, p, values)
}
