// Command field writes the arithmetic of the two fields of the curve BN254 for GPUs: Fr, of
// scalars, and Fp, of coordinates. For each there is a header of CUDA C, whose chains of
// carries are PTX and which also compiles as C++ for the host, and an include for GLSL, which
// has multiplications of 32 bits alone:
//
//	go run ./workload/zk/field
//
// Elements are kept in Montgomery form, x·2²⁵⁶ modulo the prime, below the prime, in 8 words
// of 32 bits, the lowest first: the same bytes as those of fr.Element and fp.Element of
// gnark-crypto.
package main

import (
	"embed"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:generate go run .

// Words is the number of words of an element.
const Words = 8

// Field is one field, as the templates see it.
type Field struct {
	Name  string // Fr or Fp
	Does  string
	Prime *big.Int
}

// fields are the two fields.
var fields = []Field{
	{"Fr", "scalars", decimal("21888242871839275222246405745257275088548364400416034343698204186575808495617")},
	{"Fp", "coordinates", decimal("21888242871839275222246405745257275088696311157297823662689037894645226208583")},
}

func decimal(s string) *big.Int {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		panic(s)
	}
	return n
}

// words are the words of a number below 2²⁵⁶, the lowest first.
func words(n *big.Int) []string {
	out := make([]string, Words)
	for i := range out {
		w := new(big.Int).Rsh(n, uint(32*i))
		out[i] = fmt.Sprintf("0x%08xu", uint32(w.Uint64()))
	}
	return out
}

// power is 2 to the power e, modulo the prime.
func (f Field) power(e int64) *big.Int {
	return new(big.Int).Exp(big.NewInt(2), big.NewInt(e), f.Prime)
}

// Lower is the name for files and macros.
func (f Field) Lower() string { return strings.ToLower(f.Name) }

// Modulus is the prime, One is 1 in Montgomery form, Square is the factor whose product with a number
// is its Montgomery form, and Fermat is the exponent that inverts.
func (f Field) Modulus() []string { return words(f.Prime) }
func (f Field) One() []string     { return words(f.power(32 * Words)) }
func (f Field) Square() []string  { return words(f.power(64 * Words)) }
func (f Field) Fermat() []string  { return words(new(big.Int).Sub(f.Prime, big.NewInt(2))) }

// Neg is −1 ÷ prime modulo 2³².
func (f Field) Neg() string {
	word := new(big.Int).Lsh(big.NewInt(1), 32)
	n := new(big.Int).ModInverse(f.Prime, word)
	return fmt.Sprintf("0x%08xu", n.Sub(word, n).Uint64())
}

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"count": func() []int { return []int{0, 1, 2, 3, 4, 5, 6, 7} },
	"list":  func(w []string) string { return strings.Join(w, ", ") },
}).ParseFS(files, "*.tmpl"))

// generate returns the files of all fields by name.
func generate() (map[string]string, error) {
	out := make(map[string]string)
	for _, f := range fields {
		for _, kind := range []string{"cuh", "glsl"} {
			var b strings.Builder
			if err := templates.ExecuteTemplate(&b, "field."+kind+".tmpl", f); err != nil {
				return nil, err
			}
			out[f.Lower()+"."+kind] = b.String()
		}
	}
	return out, nil
}

func run(dir string) error {
	all, err := generate()
	if err != nil {
		return err
	}
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	dir := flag.String("dir", ".", "the `folder` to write to")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "field:", err)
		os.Exit(1)
	}
}
