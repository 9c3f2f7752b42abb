package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/internal/safefile"
	"github.com/weft-run/weft/internal/terminal"
	"github.com/weft-run/weft/workload/zk"
)

// maxWitness is the most bytes of a file with a witness, public values or a proof.
const maxWitness = 1 << 32

func newZK() *cobra.Command {
	c := &cobra.Command{
		Use:   "zk ACTION",
		Short: "Prove statements with keys in files, and verify proofs",
		Long: `Prove statements with keys in files, and verify proofs: Groth16 over BN254, with
circuits, keys and proofs in gnark's own formats. A folder has a circuit
(circuit.r1cs) and its keys (proving.key, verifying.key).`,
		Example: `  weft zk setup keys --circuit merkle --constraints 20000
  weft zk prove keys --witness keys/witness.json --out proof.bin
  weft zk verify keys --proof proof.bin --public public.json`,
		Args: terminal.OneOf("action"),
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	c.AddCommand(newZKSetup(), newZKProve(), newZKVerify())
	return c
}

// oneFolder is the argument check of commands that take a folder with keys.
func oneFolder(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("zk %s takes one folder, which has the keys", c.Name())
	}
	return nil
}

func newZKSetup() *cobra.Command {
	var (
		circuit, file string
		constraints   int
		seed          uint64
	)
	c := &cobra.Command{
		Use:   "setup DIR",
		Short: "Make keys for tests, in a new folder",
		Long: `Make keys for a circuit, in a new folder. They are for tests only: whoever makes
keys alone can prove with them what is not so. Keys for other uses come from a
ceremony, such as that of gnark's mpcsetup.

The circuit is one that comes with weft, for which an example of a witness is
written too, or a file that gnark's ConstraintSystem.WriteTo wrote.`,
		Example: `  weft zk setup keys --circuit range --constraints 1000
  weft zk setup keys --r1cs mine.r1cs`,
		Args: oneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			if file != "" && (c.Flags().Changed("circuit") || c.Flags().Changed("constraints")) {
				return terminal.Usagef("--r1cs goes with neither --circuit nor --constraints")
			}
			return terminal.Abandonable(c.Context(), func() error { return zkSetup(c, args[0], circuit, file, constraints, seed) })
		},
	}
	c.Flags().StringVar(&circuit, "circuit", zk.Chain, "mimc (a chain of hashes), range (64-bit numbers) or merkle (leaves of a tree)")
	c.Flags().IntVar(&constraints, "constraints", 1000, "constraints, about")
	c.Flags().StringVar(&file, "r1cs", "", "circuit in a `file` that gnark compiled to constraints of rank 1")
	c.Flags().Uint64Var(&seed, "seed", 1, "what the example of a witness is drawn from")
	terminal.Complete(c, "circuit", zk.Circuits)
	return c
}

func zkSetup(c *cobra.Command, dir, circuit, file string, constraints int, seed uint64) error {
	var keys *zk.Keys
	var example []byte
	if file != "" {
		r1cs, err := zk.ReadCircuit(file)
		if err != nil {
			return terminal.Usage(err)
		}
		if keys, err = zk.Setup(r1cs); err != nil {
			return err
		}
	} else {
		compiled, w, err := zk.Shipped(circuit, constraints, seed)
		if err != nil {
			return terminal.Usage(err)
		}
		if keys, err = zk.Setup(compiled); err != nil {
			return err
		}
		if example, err = zk.WriteWitness(keys.Circuit, w); err != nil {
			return err
		}
	}
	if err := keys.Write(dir); err != nil {
		return terminal.Usage(err)
	}
	if example != nil {
		if err := os.WriteFile(filepath.Join(dir, "witness.json"), example, 0o600); err != nil {
			return terminal.Usage(err)
		}
	}
	return terminal.Print(c, false, nil, func(b *bytes.Buffer) error {
		fmt.Fprintf(b, "Keys for %d constraints are in %s. They are for tests only.\n", keys.Circuit.GetNbConstraints(), dir)
		if example != nil {
			fmt.Fprintf(b, "An example of a witness is in %s.\n", filepath.Join(dir, "witness.json"))
		}
		return nil
	})
}

func newZKProve() *cobra.Command {
	var s settings
	var in, out, public string
	c := &cobra.Command{
		Use:   "prove DIR",
		Short: "Prove a statement on all devices",
		Long: `Prove that a witness satisfies the circuit in a folder, on all devices. The
witness is JSON: an object with the value of each variable by its name, as a
number or a string, such as {"Sum": "12", "Values": [3, 4, 5]}. gnark verifies
the proof before it is written; the public values are written beside it.`,
		Example: `  weft zk prove keys --witness witness.json --out proof.bin`,
		Args:    oneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			if in == "" {
				return terminal.Usagef("--witness is missing: a file with the values of all variables")
			}
			return zkProve(c, &s, args[0], in, out, public)
		},
	}
	c.Flags().StringVar(&in, "witness", "", "values of all variables, secret ones too, in a JSON `file`")
	c.Flags().StringVar(&out, "out", "proof.bin", "`file` for the proof")
	c.Flags().StringVar(&public, "public", "public.json", "`file` for the public values")
	s.bind(c.PersistentFlags())
	s.complete(c)
	return c
}

func zkProve(c *cobra.Command, s *settings, dir, in, out, public string) error {
	options, err := s.options()
	if err != nil {
		return err
	}
	keys, err := zk.ReadKeys(dir, true)
	if err != nil {
		return terminal.Usage(err)
	}
	text, err := safefile.ReadInput(in, maxWitness)
	if err != nil {
		return terminal.Usage(terminal.FileError(in, err))
	}
	w, err := zk.ReadWitness(keys.Circuit, text)
	clear(text)
	if err != nil {
		return terminal.Usage(fmt.Errorf("%s: %w", in, err))
	}
	defer zk.Forget(w)
	values, err := zk.WritePublic(keys.Circuit, w)
	if err != nil {
		return err
	}
	proofTo, err := terminal.OpenOutput(c, out)
	if err != nil {
		return terminal.Usage(err)
	}
	defer proofTo.Close()
	publicTo, err := terminal.OpenOutput(c, public)
	if err != nil {
		return terminal.Usage(err)
	}
	defer publicTo.Close()
	rt, err := open(c.Context(), options, c.ErrOrStderr())
	if err != nil {
		return err
	}
	defer rt.Close()
	prover, err := zk.NewProver(rt, keys.Circuit, keys.Proving)
	if err != nil {
		return err
	}
	defer prover.Release()
	begun := time.Now()
	proof, err := prover.Prove(c.Context(), w)
	if errors.Is(err, zk.ErrWitness) {
		return terminal.Usage(fmt.Errorf("%s: %w", in, err))
	} else if err != nil {
		return err
	}
	took := time.Since(begun)
	shown, err := w.Public()
	if err != nil {
		return err
	}
	if err := zk.Verify(keys.Verifying, proof, shown); err != nil {
		return err
	}
	if err := proofTo.Replace(func(w io.Writer) error {
		_, err := proof.WriteTo(w)
		return err
	}); err != nil {
		return err
	}
	if err := publicTo.Replace(func(w io.Writer) error {
		_, err := w.Write(values)
		return err
	}); err != nil {
		return err
	}
	return terminal.Print(c, false, nil, func(b *bytes.Buffer) error {
		fmt.Fprintf(b, "Proved %d constraints in %s; gnark accepts the proof.\nThe proof is in %s, the public values are in %s.\n", keys.Circuit.GetNbConstraints(), terminal.Short(took), out, public)
		return nil
	})
}

func newZKVerify() *cobra.Command {
	var proof, public string
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Have gnark verify a proof",
		Long: `Have gnark verify a proof of the circuit in a folder for public values. The exit
status is 1 if it does not prove them.`,
		Example: `  weft zk verify keys --proof proof.bin --public public.json`,
		Args:    oneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			keys, err := zk.ReadKeys(args[0], false)
			if err != nil {
				return terminal.Usage(err)
			}
			text, err := safefile.ReadInput(public, maxWitness)
			if err != nil {
				return terminal.Usage(terminal.FileError(public, err))
			}
			values, err := zk.ReadPublic(keys.Circuit, text)
			if err != nil {
				return terminal.Usage(fmt.Errorf("%s: %w", public, err))
			}
			encoded, err := safefile.ReadInput(proof, maxWitness)
			if err != nil {
				return terminal.Usage(terminal.FileError(proof, err))
			}
			p, err := zk.ReadProof(bytes.NewReader(encoded))
			if err == nil {
				err = zk.Verify(keys.Verifying, p, values)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", proof, err)
			}
			return terminal.Print(c, false, nil, func(b *bytes.Buffer) error {
				fmt.Fprintln(b, "gnark accepts the proof.")
				return nil
			})
		},
	}
	c.Flags().StringVar(&proof, "proof", "proof.bin", "`file` with the proof")
	c.Flags().StringVar(&public, "public", "public.json", "public values in a JSON `file`")
	return c
}
