package zk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark/backend/witness"
	cs "github.com/consensys/gnark/constraint/bn254"
)

// ReadWitness reads a witness of a circuit from JSON: an object with the values of all its
// variables by their names. A value is a whole number from 0 on, below the order of the group,
// as a number or as a string, there also in hexadecimal with 0x. Those of an array are in an
// array, or called name_0, name_1 and so on; those of a struct in an object. Of the text nothing
// is kept.
func ReadWitness(circuit *cs.R1CS, text []byte) (witness.Witness, error) {
	return readValues(circuit.Public[1:], circuit.Secret, text)
}

// ReadPublic reads the public values of a circuit, as [ReadWitness] reads all. Secret ones may
// not be there.
func ReadPublic(circuit *cs.R1CS, text []byte) (witness.Witness, error) {
	return readValues(circuit.Public[1:], nil, text)
}

func readValues(public, secret []string, text []byte) (witness.Witness, error) {
	found := make(map[string]fr.Element)
	defer clear(found)
	if err := flatten("", text, 0, found); err != nil {
		return nil, fmt.Errorf("zk: %w: %w", ErrWitness, err)
	}
	names := slices.Concat(public, secret)
	values := make([]fr.Element, len(names))
	for i, name := range names {
		v, ok := found[name]
		if !ok {
			clear(values)
			return nil, fmt.Errorf("zk: %w: it has no value for %s", ErrWitness, name)
		}
		values[i] = v
	}
	if len(found) > len(names) {
		clear(values)
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if !slices.Contains(names, name) {
				return nil, fmt.Errorf("zk: %w: it has a value for %s, which is not one of %s", ErrWitness, name, some(names))
			}
		}
	}
	return witnessOf(values, len(public))
}

// some names the first of some variables.
func some(names []string) string {
	const most = 6
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// witnessOf makes a witness of values, the public ones first, and clears them.
func witnessOf(values []fr.Element, public int) (witness.Witness, error) {
	defer clear(values)
	w, err := witness.New(ecc.BN254.ScalarField())
	if err != nil {
		return nil, err
	}
	all := make(chan any)
	go func() {
		defer close(all)
		for i := range values {
			all <- values[i]
		}
	}()
	return w, w.Fill(public, len(values)-public, all)
}

// maxNesting is the most objects and arrays that a value is in.
const maxNesting = 16

// flatten reads a value of JSON, and puts those in it into a map by their names.
func flatten(name string, text []byte, depth int, into map[string]fr.Element) error {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return errors.New("it is empty; it must be a JSON object with a value for each variable")
	}
	if depth > maxNesting {
		return fmt.Errorf("%s is nested more than %d deep", name, maxNesting)
	}
	sub := func(part string) string {
		if name == "" {
			return part
		}
		return name + "_" + part
	}
	switch {
	case text[0] == '{':
		var all map[string]json.RawMessage
		if err := strict(text, &all); err != nil {
			return err
		}
		for k, v := range all {
			defer clear(v)
			if err := flatten(sub(k), v, depth+1, into); err != nil {
				return err
			}
		}
		return nil
	case text[0] == '[' && name != "":
		var all []json.RawMessage
		if err := strict(text, &all); err != nil {
			return err
		}
		for i, v := range all {
			defer clear(v)
			if err := flatten(sub(strconv.Itoa(i)), v, depth+1, into); err != nil {
				return err
			}
		}
		return nil
	case name == "":
		return errors.New("it must be a JSON object with a value for each variable")
	}
	if _, ok := into[name]; ok {
		return fmt.Errorf("%s has two values", name)
	}
	x, err := parseScalar(text)
	if err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	into[name] = x
	return nil
}

// strict reads one value of JSON, without saying what is in it.
func strict(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	err := d.Decode(to)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return errors.New("there is more than one JSON object")
		}
		return nil
	}
	var s *json.SyntaxError
	if errors.As(err, &s) {
		return fmt.Errorf("it is no JSON from byte %d on", s.Offset)
	}
	return errors.New("it is no JSON")
}

// maxDigits is more than a scalar has.
const maxDigits = 80

// parseScalar reads a scalar: digits, maybe in quotes, where they may be hexadecimal. Errors do
// not say the value.
func parseScalar(text []byte) (x fr.Element, err error) {
	base, digits := 10, text
	if digits[0] == '"' {
		digits = digits[1 : len(digits)-1]
		if bytes.HasPrefix(digits, []byte("0x")) {
			base, digits = 16, digits[2:]
		}
	}
	if len(digits) == 0 || len(digits) > maxDigits {
		return x, errors.New("must be a whole number below the order of the group")
	}
	n, d := new(big.Int), new(big.Int)
	defer forgetInt(n)
	defer forgetInt(d)
	by := big.NewInt(int64(base))
	for _, c := range digits {
		v := strings.IndexByte("0123456789abcdef", c|0x20)
		if v < 0 || v >= base || c < '0' {
			return x, errors.New("must be a whole number from 0 on, as 5, \"5\" or \"0x5\"")
		}
		n.Add(n.Mul(n, by), d.SetInt64(int64(v)))
	}
	if n.Cmp(modulus) >= 0 {
		return x, fmt.Errorf("is not below the order of the group, %v", modulus)
	}
	x.SetBigInt(n)
	return x, nil
}

// forgetInt clears a number.
func forgetInt(n *big.Int) {
	words := n.Bits()
	clear(words[:cap(words)])
}

// Forget clears the values of a witness.
func Forget(w witness.Witness) {
	if w == nil {
		return
	}
	if values, ok := w.Vector().(fr.Vector); ok {
		clear(values)
	}
}

// WritePublic returns the public values of a witness of a circuit as JSON, for [ReadPublic].
func WritePublic(circuit *cs.R1CS, w witness.Witness) ([]byte, error) {
	return writeValues(circuit.Public[1:], w)
}

// WriteWitness returns all values of a witness of a circuit as JSON, for [ReadWitness].
func WriteWitness(circuit *cs.R1CS, w witness.Witness) ([]byte, error) {
	return writeValues(slices.Concat(circuit.Public[1:], circuit.Secret), w)
}

func writeValues(names []string, w witness.Witness) ([]byte, error) {
	values, ok := w.Vector().(fr.Vector)
	if !ok || len(values) < len(names) {
		return nil, fmt.Errorf("zk: %w: it is not one of the circuit", ErrWitness)
	}
	var b bytes.Buffer
	b.WriteString("{")
	for i, name := range names {
		if i > 0 {
			b.WriteString(",")
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n  %s: %q", key, values[i].Text(10))
	}
	b.WriteString("\n}\n")
	return b.Bytes(), nil
}
