package main

import (
	"fmt"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/consensys/gnark-crypto/ecc/bn254/fp"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
)

// The committed files are those that the templates make.
func TestGenerated(t *testing.T) {
	all, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range all {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s is not what its template makes: go run ./workload/zk/field -dir workload/zk/field, then compile what includes it (%v)", name, err)
		}
	}
	if len(all) != 4 {
		t.Errorf("%d files were looked at", len(all))
	}
}

func TestRunWrites(t *testing.T) {
	dir := t.TempDir()
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 4 {
		t.Errorf("%d files: %v", len(files), err)
	}
	if run(dir+"/missing") == nil {
		t.Error("a folder that is not there is written to")
	}
}

func TestPrimes(t *testing.T) {
	for i, want := range []*big.Int{fr.Modulus(), fp.Modulus()} {
		if fields[i].Prime.Cmp(want) != 0 {
			t.Errorf("%s has prime %v, want %v", fields[i].Name, fields[i].Prime, want)
		}
	}
}

// element is an element's words, the lowest first.
type element [Words]uint32

// element of a number, as it is.
func elementOf(n *big.Int) (e element) {
	for i := range e {
		e[i] = uint32(new(big.Int).Rsh(n, uint(32*i)).Uint64())
	}
	return e
}

func (e element) limbs() (l [4]uint64) {
	for i := range l {
		l[i] = uint64(e[2*i]) | uint64(e[2*i+1])<<32
	}
	return l
}

func ofLimbs(l [4]uint64) (e element) {
	for i, w := range l {
		e[2*i], e[2*i+1] = uint32(w), uint32(w>>32)
	}
	return e
}

// reference computes with gnark-crypto what sources have to.
func (f Field) reference(op string, a, b element) element {
	if f.Name == "Fr" {
		x, y := fr.Element(a.limbs()), fr.Element(b.limbs())
		var out fr.Element
		switch op {
		case "add":
			out.Add(&x, &y)
		case "sub":
			out.Sub(&x, &y)
		case "mul":
			out.Mul(&x, &y)
		case "neg":
			out.Neg(&x)
		case "inverse":
			out.Inverse(&x)
		case "to_number":
			out = fr.Element(x.Bits())
		case "power":
			out.Exp(x, big.NewInt(int64(b[0])))
		}
		return ofLimbs(out)
	}
	x, y := fp.Element(a.limbs()), fp.Element(b.limbs())
	var out fp.Element
	switch op {
	case "add":
		out.Add(&x, &y)
	case "sub":
		out.Sub(&x, &y)
	case "mul":
		out.Mul(&x, &y)
	case "neg":
		out.Neg(&x)
	case "inverse":
		out.Inverse(&x)
	case "to_number":
		out = fp.Element(x.Bits())
	case "power":
		out.Exp(x, big.NewInt(int64(b[0])))
	}
	return ofLimbs(out)
}

// samples are elements where carries and borrows are at their ends, and random ones.
func (f Field) samples(random int) (out []element) {
	one := big.NewInt(1)
	last := new(big.Int).Sub(f.Prime, one)
	half := new(big.Int).Rsh(f.Prime, 1)
	for _, n := range []*big.Int{new(big.Int), one, big.NewInt(2), last, new(big.Int).Sub(last, one), half, new(big.Int).Add(half, one), f.power(32 * Words), f.power(64 * Words)} {
		out = append(out, elementOf(n))
	}
	for i := range Words {
		out = append(out, elementOf(new(big.Int).Sub(new(big.Int).Lsh(one, uint(32*i)), one)))
		if i < Words-1 {
			out = append(out, elementOf(new(big.Int).Sub(f.Prime, new(big.Int).Lsh(one, uint(32*i)))))
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range random {
		var e element
		for i := range e {
			// Carries go far through words of ones and of zeros.
			switch e[i] = r.Uint32(); r.IntN(4) {
			case 0:
				e[i] = 0
			case 1:
				e[i] = ^uint32(0)
			}
		}
		n := new(big.Int)
		for i := Words - 1; i >= 0; i-- {
			n.Add(n.Lsh(n, 32), big.NewInt(int64(e[i])))
		}
		out = append(out, elementOf(n.Mod(n, f.Prime)))
	}
	return out
}

// asm returns the PTX of a function in a header, an instruction to a line.
func asm(t *testing.T, header, function string) (lines []string) {
	t.Helper()
	_, rest, ok := strings.Cut(header, " "+function+"(F")
	_, rest, ok2 := strings.Cut(rest, "_asm(\n")
	text, _, ok3 := strings.Cut(rest, ",\n\t\tout, a, b);")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("there is no function %s", function)
	}
	for line := range strings.Lines(text) {
		s, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines = append(lines, strings.TrimSuffix(strings.TrimSpace(s), ";"))
	}
	return lines[1 : len(lines)-1]
}

// processor executes the few instructions of PTX that chains have.
type processor struct {
	registers map[string]uint32
	carry     uint32 // or borrow
}

func (p *processor) value(operand string) uint32 {
	if v, ok := p.registers[operand]; ok {
		return v
	}
	v, err := strconv.ParseUint(operand, 0, 32)
	if err != nil {
		panic(fmt.Sprintf("%s is read and was never written", operand))
	}
	return uint32(v)
}

func (p *processor) do(line string) {
	name, rest, _ := strings.Cut(line, " ")
	operands := strings.Split(rest, ", ")
	v := make([]uint32, len(operands))
	for i := range v[1:] {
		v[i+1] = p.value(operands[i+1])
	}
	op, leaves := strings.TrimSuffix(name, ".u32"), false
	op, leaves = strings.CutSuffix(op, ".cc")
	in, out, carry := p.carry, uint32(0), p.carry
	wide := func() (hi, lo uint32) { return bits.Mul32(v[1], v[2]) }
	switch op {
	case "add", "sub", "mad.lo", "mad.hi":
		in = 0
	}
	switch op {
	case "mul.lo":
		_, out = wide()
	case "mul.hi":
		out, _ = wide()
	case "add", "addc":
		out, carry = bits.Add32(v[1], v[2], in)
	case "sub", "subc":
		out, carry = bits.Sub32(v[1], v[2], in)
	case "mad.lo", "madc.lo":
		_, lo := wide()
		out, carry = bits.Add32(lo, v[3], in)
	case "madc.hi":
		hi, _ := wide()
		out, carry = bits.Add32(hi, v[3], in)
	case "and.b32":
		out = v[1] & v[2]
	case "setp.ne":
		out = 0
		if v[1] != v[2] {
			out = 1
		}
	case "selp.b32":
		if out = v[2]; v[3] != 0 {
			out = v[1]
		}
	default:
		panic("no instruction " + line)
	}
	p.registers[operands[0]] = out
	if leaves {
		p.carry = carry
	}
}

// The PTX of both fields computes what gnark-crypto does, also where carries go furthest.
func TestChains(t *testing.T) {
	random := 60
	if testing.Short() {
		random = 10
	}
	for _, f := range fields {
		header, err := os.ReadFile(f.Lower() + ".cuh")
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range []string{"add", "sub", "mul"} {
			lines := asm(t, string(header), op)
			all := f.samples(random)
			for _, a := range all {
				for _, b := range all {
					p := processor{registers: make(map[string]uint32)}
					for i := range Words {
						p.registers[fmt.Sprintf("%%%d", Words+i)], p.registers[fmt.Sprintf("%%%d", 2*Words+i)] = a[i], b[i]
					}
					for _, line := range lines {
						p.do(line)
					}
					var got element
					for i := range got {
						got[i] = p.registers[fmt.Sprintf("%%%d", i)]
					}
					if want := f.reference(op, a, b); got != want {
						t.Fatalf("%s: %s of %x and %x is %x, want %x", f.Name, op, a, b, got, want)
					}
				}
			}
		}
	}
}
