package zk

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr/fft"
	groth16 "github.com/consensys/gnark/backend/groth16/bn254"
	"github.com/consensys/gnark/backend/witness"
	"github.com/consensys/gnark/constraint"
	cs "github.com/consensys/gnark/constraint/bn254"

	"github.com/weft-run/weft/internal/safefile"
)

// ErrKey is wrapped by errors about a key that is not the circuit's, or none.
var ErrKey = errors.New("bad key")

// checkKey returns an error unless a proving key fits a circuit: it has the roots of unity that
// the circuit needs, and points for the wires that the circuit uses in A, in B and in K.
func checkKey(r1cs *cs.R1CS, pk *groth16.ProvingKey) error {
	other := func(what string, have, want any) error {
		return fmt.Errorf("zk: %w: the proving key is of another circuit: it has %v %s, and this circuit %v", ErrKey, have, what, want)
	}
	n := ecc.NextPowerOfTwo(uint64(r1cs.GetNbConstraints()))
	if pk.Domain.Cardinality != n {
		return other("roots of unity", pk.Domain.Cardinality, n)
	}
	if root, err := fft.Generator(n); err != nil || !pk.Domain.Generator.Equal(&root) || pk.Domain.FrMultiplicativeGen != fft.GeneratorFullMultiplicativeGroup() {
		return fmt.Errorf("zk: %w: it has other roots of unity than gnark", ErrKey)
	}
	wires := wiresOf(r1cs)
	if len(pk.InfinityA) != wires || len(pk.InfinityB) != wires {
		return other("wires", max(len(pk.InfinityA), len(pk.InfinityB)), wires)
	}
	committed, ok := r1cs.CommitmentInfo.(constraint.Groth16Commitments)
	if !ok {
		return fmt.Errorf("zk: the circuit was not compiled for Groth16")
	}
	if len(pk.CommitmentKeys) != len(committed) {
		return other("commitments", len(pk.CommitmentKeys), len(committed))
	}
	inA, inB := used(r1cs)
	private := 0
	for i, out := range notPrivate(r1cs, committed) {
		if !out {
			private++
		}
		if pk.InfinityA[i] == inA[i] || pk.InfinityB[i] == inB[i] {
			return fmt.Errorf("zk: %w: the proving key is of another circuit: it has other points for wire %d", ErrKey, i)
		}
	}
	for _, p := range []struct {
		what       string
		have, want int
	}{
		{"points in A", len(pk.G1.A), wires - int(pk.NbInfinityA)}, {"points in B", len(pk.G1.B), wires - int(pk.NbInfinityB)},
		{"points in B of G2", len(pk.G2.B), wires - int(pk.NbInfinityB)}, {"points in K", len(pk.G1.K), private},
		{"points in Z", len(pk.G1.Z), int(n) - 1},
		{"points at infinity in A", int(pk.NbInfinityA), count(pk.InfinityA)}, {"points at infinity in B", int(pk.NbInfinityB), count(pk.InfinityB)},
	} {
		if p.have != p.want {
			return other(p.what, p.have, p.want)
		}
	}
	return nil
}

// used reports of each wire whether the circuit uses it on the left, and on the right, of its
// constraints.
func used(r1cs *cs.R1CS) (left, right []bool) {
	left, right = make([]bool, wiresOf(r1cs)), make([]bool, wiresOf(r1cs))
	it := r1cs.GetR1CIterator()
	for c := it.Next(); c != nil; c = it.Next() {
		for _, t := range c.L {
			left[t.WireID()] = true
		}
		for _, t := range c.R {
			right[t.WireID()] = true
		}
	}
	return left, right
}

func count(xs []bool) (n int) {
	for _, x := range xs {
		if x {
			n++
		}
	}
	return n
}

// Keys are a circuit with what a setup made for it.
type Keys struct {
	Circuit   *cs.R1CS
	Proving   *groth16.ProvingKey
	Verifying *groth16.VerifyingKey
	// ForTests says that one program made the keys: whoever ran it could prove false statements with them.
	ForTests bool
}

// The files of keys.
const (
	circuitFile   = "circuit.r1cs"
	provingFile   = "proving.key"
	verifyingFile = "verifying.key"
	setupFile     = "setup.json"
)

// maxFile is the most bytes of a file of keys.
const maxFile = 1 << 36

// setup is the content of the file of that name.
type setup struct {
	ForTestsOnly bool              `json:"for_tests_only"`
	Why          string            `json:"why"`
	Curve        string            `json:"curve"`
	Scheme       string            `json:"scheme"`
	Constraints  int               `json:"constraints"`
	SHA256       map[string]string `json:"sha256"` // of the other files
}

// Write writes the circuit and both keys, as gnark writes them, into a folder that has none, with
// a file that says that they are for tests only, and their hashes.
func (k *Keys) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("zk: %w", err)
	}
	about := setup{
		ForTestsOnly: true, Why: "whoever made these keys can prove false statements with them",
		Curve: "bn254", Scheme: "groth16", Constraints: k.Circuit.GetNbConstraints(), SHA256: make(map[string]string),
	}
	for _, f := range []struct {
		name  string
		write func(io.Writer) (int64, error)
	}{{circuitFile, k.Circuit.WriteTo}, {provingFile, k.Proving.WriteRawTo}, {verifyingFile, k.Verifying.WriteRawTo}} {
		h := sha256.New()
		if err := create(filepath.Join(dir, f.name), func(w io.Writer) error {
			_, err := f.write(io.MultiWriter(w, h))
			return err
		}); err != nil {
			return err
		}
		about.SHA256[f.name] = hex.EncodeToString(h.Sum(nil))
	}
	return create(filepath.Join(dir, setupFile), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(about)
	})
}

// CanWrite returns an error unless [Keys.Write] can write keys and the other files to a folder:
// files can be made there, and none of these exists. The folder itself need not exist. Nothing is
// left behind.
func CanWrite(dir string, others ...string) error {
	for _, name := range append([]string{circuitFile, provingFile, verifyingFile, setupFile}, others...) {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return there(filepath.Join(dir, name))
		}
	}
	// The nearest folder that is there tells of those that are not.
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		f, err := os.CreateTemp(at, ".weft-*")
		if err == nil {
			f.Close()
			return os.Remove(f.Name())
		}
		if _, gone := os.Lstat(at); !errors.Is(gone, fs.ErrNotExist) || at == filepath.Dir(at) {
			var p *fs.PathError
			if errors.As(err, &p) {
				err = p.Err
			}
			return fmt.Errorf("zk: keys cannot be written to %s: %w", dir, err)
		}
	}
}

// KeyFiles returns the names of the files that keys in a folder have.
func KeyFiles(dir string) []string {
	files := []string{circuitFile, provingFile, verifyingFile, setupFile}
	for i, f := range files {
		files[i] = filepath.Join(dir, f)
	}
	return files
}

// there is the error for a file that is there and would be written over.
func there(name string) error {
	return fmt.Errorf("zk: %s is there already: write keys to another folder", name)
}

// create writes a file that is not there.
func create(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return there(name)
	} else if err != nil {
		return fmt.Errorf("zk: %w", err)
	}
	b := bufio.NewWriterSize(f, 1<<20)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(name)
		return fmt.Errorf("zk: %w", err)
	}
	return nil
}

// ReadKeys reads the circuit and both keys from a folder: those that Keys.Write wrote, or files of
// the same names that gnark wrote. Their points are checked, which takes a while, and a key of
// another circuit is refused. Without proving there is no proving key.
func ReadKeys(dir string, proving bool) (*Keys, error) {
	var about setup
	switch text, err := safefile.ReadInput(filepath.Join(dir, setupFile), maxFile); {
	case errors.Is(err, fs.ErrNotExist): // files of gnark's
	case err != nil:
		return nil, fmt.Errorf("zk: %w", err)
	default:
		if err := json.Unmarshal(text, &about); err != nil {
			return nil, fmt.Errorf("zk: %s: %w: %w", filepath.Join(dir, setupFile), ErrKey, err)
		}
	}
	k := &Keys{Circuit: new(cs.R1CS), Verifying: new(groth16.VerifyingKey), ForTests: about.ForTestsOnly}
	if err := about.readCircuit(dir, circuitFile, k.Circuit); err != nil {
		return nil, err
	}
	if err := about.read(dir, verifyingFile, (*layout).verifyingKey, k.Verifying.ReadFrom); err != nil {
		return nil, err
	}
	committed := k.Circuit.CommitmentInfo.(constraint.Groth16Commitments)
	if have, want := len(k.Verifying.G1.K), k.Circuit.GetNbPublicVariables()+len(committed); have != want {
		return nil, fmt.Errorf("zk: %w: the verifying key is of another circuit: it has %d public wires, and this circuit %d", ErrKey, have, want)
	}
	if !proving {
		return k, nil
	}
	k.Proving = new(groth16.ProvingKey)
	if err := about.read(dir, provingFile, (*layout).provingKey, k.Proving.ReadFrom); err != nil {
		return nil, err
	}
	return k, checkKey(k.Circuit, k.Proving)
}

// ReadCircuit reads a circuit from a file that gnark's ConstraintSystem.WriteTo wrote.
func ReadCircuit(file string) (*cs.R1CS, error) {
	c := new(cs.R1CS)
	if err := new(setup).readCircuit(filepath.Dir(file), filepath.Base(file), c); err != nil {
		return nil, err
	}
	return c, nil
}

// readCircuit reads a circuit and errs unless gnark can solve it.
func (s *setup) readCircuit(dir, name string, c *cs.R1CS) error {
	if err := s.read(dir, name, (*layout).circuit, c.ReadFrom); err != nil {
		return err
	}
	name = filepath.Join(dir, name)
	if _, ok := c.CommitmentInfo.(constraint.Groth16Commitments); !ok || c.Type != constraint.SystemR1CS {
		return fmt.Errorf("zk: %s: the circuit was not compiled for Groth16: use r1cs.NewBuilder", name)
	}
	if !sound(c) {
		return fmt.Errorf("zk: %s: %w: the circuit is damaged, or of a version of gnark that this program does not know", name, ErrKey)
	}
	return nil
}

// read reads a file of keys, after its hash and its layout were compared.
func (s *setup) read(dir, name string, parts func(*layout), from func(io.Reader) (int64, error)) (err error) {
	name = filepath.Join(dir, name)
	text, err := safefile.ReadInput(name, maxFile)
	if err != nil {
		return fmt.Errorf("zk: %w", err)
	}
	if want, ok := s.SHA256[filepath.Base(name)]; ok {
		if have := sha256.Sum256(text); hex.EncodeToString(have[:]) != want {
			return fmt.Errorf("zk: %s: %w: it is of another circuit or damaged: its hash is not the one in %s", name, ErrKey, setupFile)
		}
	}
	if !fits(text, parts) {
		return fmt.Errorf("zk: %s: %w: it is damaged", name, ErrKey)
	}
	defer func() { // gnark takes what it reads as it is
		if x := recover(); x != nil {
			err = fmt.Errorf("zk: %s: %w: it is damaged", name, ErrKey)
		}
	}()
	if _, err := from(bytes.NewReader(text)); err != nil {
		return fmt.Errorf("zk: %s: %w: %w", name, ErrKey, err)
	}
	return nil
}

// ErrProof is wrapped by errors about proofs that do not prove what they should.
var ErrProof = errors.New("bad proof")

// ReadProof reads a proof that gnark, or the Proof's WriteTo, wrote. Its points are checked.
func ReadProof(r io.Reader) (_ *groth16.Proof, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("zk: %w: it is damaged", ErrProof)
		}
	}()
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("zk: %w", err)
	}
	p := new(groth16.Proof)
	if !fits(text, (*layout).proof) {
		return nil, fmt.Errorf("zk: %w: it is damaged", ErrProof)
	}
	if _, err := p.ReadFrom(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("zk: %w: %w", ErrProof, err)
	}
	return p, nil
}

// Verify has gnark verify a proof for public values. A proof of something else, for other values
// or of another key wraps [ErrProof].
func Verify(key *groth16.VerifyingKey, proof *groth16.Proof, public witness.Witness) error {
	values, ok := public.Vector().(fr.Vector)
	if want := len(key.G1.K) - 1 - len(key.PublicAndCommitmentCommitted); !ok || len(values) != want {
		return fmt.Errorf("zk: %w: there are %d public values, and the key is for %d", ErrProof, len(values), want)
	}
	if len(proof.Commitments) != len(key.PublicAndCommitmentCommitted) {
		return fmt.Errorf("zk: %w: it has %d commitments, and the key is for %d", ErrProof, len(proof.Commitments), len(key.PublicAndCommitmentCommitted))
	}
	if err := groth16.Verify(proof, key, values); err != nil {
		return fmt.Errorf("zk: %w: it does not prove the circuit for these public values", ErrProof)
	}
	return nil
}
