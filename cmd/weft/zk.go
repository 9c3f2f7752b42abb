package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/internal/safefile"
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
		Args: terminal.OneOf("command"),
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
keys alone can prove false statements with them. Keys for other uses come from a
ceremony, such as gnark's mpcsetup.

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

// exampleFile is the name of the file with an example of a witness.
const exampleFile = "witness.json"

func zkSetup(c *cobra.Command, dir, circuit, file string, constraints int, seed uint64) error {
	if err := zk.CanWrite(dir, exampleFile); err != nil {
		return terminal.Usage(err)
	}
	var keys *zk.Keys
	var example []byte
	if file != "" {
		r1cs, err := zk.ReadCircuit(file)
		if err != nil {
			return terminal.Usage(err)
		}
		if keys, err = zk.Setup(c.Context(), r1cs); err != nil {
			return err
		}
	} else {
		compiled, w, err := zk.Shipped(circuit, constraints, seed)
		if err != nil {
			return terminal.Usage(err)
		}
		if keys, err = zk.Setup(c.Context(), compiled); err != nil {
			return err
		}
		if example, err = zk.WriteWitness(keys.Circuit, w); err != nil {
			return err
		}
	}
	if err := keys.Write(dir); err != nil {
		return err
	}
	if example != nil {
		if err := os.WriteFile(filepath.Join(dir, exampleFile), example, 0o600); err != nil {
			return err
		}
	}
	return terminal.Print(c, false, nil, func(b *bytes.Buffer) error {
		fmt.Fprintf(b, "Keys for %d constraints are in %s. They are for tests only.\n", keys.Circuit.GetNbConstraints(), dir)
		if example != nil {
			fmt.Fprintf(b, "An example of a witness is in %s.\n", filepath.Join(dir, exampleFile))
		}
		return nil
	})
}

// readKeys reads the circuit and the keys of a folder.
func readKeys(dir string, proving bool) (*zk.Keys, error) {
	keys, err := zk.ReadKeys(dir, proving)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, terminal.Usagef("%w: name a folder with keys; weft zk setup makes one for tests", err)
	case err != nil:
		return nil, terminal.Usage(err)
	}
	return keys, nil
}

func newZKProve() *cobra.Command {
	var s settings
	var in []string
	var out, public string
	c := &cobra.Command{
		Use:   "prove DIR",
		Short: "Prove statements on all devices",
		Long: `Prove that a witness satisfies the circuit in a folder, on all devices. The
witness is JSON: an object with the value of each variable by its name, as a
number or a string, such as {"Sum": "12", "Values": [3, 4, 5]}. Elements of an
array may have names of their own instead, as in Values_0, which is how setup
writes its example. gnark verifies each proof before it is written; the public
values are written to a file in the same folder.

With several files, or a file that has an array of witnesses or one on each
line, all are proved, and the file for proofs has a line of JSON for each, in
their order: {"witness": 0, "proof": "...", "public": {...}}, or with an error.
The exit status is 1 if one was not proved.`,
		Example: `  weft zk prove keys --witness witness.json --out proof.bin
  weft zk prove keys --witness many.jsonl --out proofs.jsonl`,
		Args: oneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			if len(in) == 0 {
				return terminal.Usagef("--witness is missing: a file with the values of all variables")
			}
			return (&zkProof{c: c, dir: args[0], in: in, out: out, public: public}).prove(&s)
		},
	}
	c.Flags().StringArrayVar(&in, "witness", nil, "values of all variables, secret ones too, in a JSON `file`;\nmay be repeated")
	c.Flags().StringVar(&out, "out", "", "`file` for the proof (proof.bin; proofs.jsonl for many)")
	c.Flags().StringVar(&public, "public", "public.json", "`file` for the public values of one proof")
	s.bind(c.PersistentFlags())
	s.complete(c)
	return c
}

func newZKVerify() *cobra.Command {
	var proof, public string
	c := &cobra.Command{
		Use:   "verify DIR",
		Short: "Have gnark verify a proof",
		Long: `Have gnark verify a proof of the circuit in a folder for public values. The exit
status is 1 if it does not prove them. A file of many proofs, as weft zk prove
writes it, has the public values of each.`,
		Example: `  weft zk verify keys --proof proof.bin --public public.json`,
		Args:    oneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			keys, err := readKeys(args[0], false)
			if err != nil {
				return err
			}
			encoded, err := safefile.ReadInput(proof, maxWitness)
			if err != nil {
				return terminal.Usage(terminal.FileError(proof, err))
			}
			if bytes.HasPrefix(encoded, []byte("{")) { // which no proof begins with
				return verifyLines(c, keys, proof, encoded)
			}
			text, err := safefile.ReadInput(public, maxWitness)
			if err != nil {
				return terminal.Usage(terminal.FileError(public, err))
			}
			values, err := zk.ReadPublic(keys.Circuit, text)
			if err != nil {
				return terminal.Usage(fmt.Errorf("%s: %w", public, err))
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
