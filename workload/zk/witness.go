package zk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/consensys/gnark-crypto/ecc"
	"github.com/consensys/gnark-crypto/ecc/bn254/fr"
	"github.com/consensys/gnark/backend/witness"
	cs "github.com/consensys/gnark/constraint/bn254"
)

// Witness is a witness of gnark.
type Witness = witness.Witness

// ReadWitness reads a witness of a circuit from JSON: an object with the values of all its
// variables by their names. A value is a whole number from 0 on, below the order of the group, as a
// number or as a string, which may be hexadecimal with 0x. The values of an array are in an array,
// or called name_0, name_1 and so on; the values of a struct are in an object. ReadWitness keeps
// none of the text.
func ReadWitness(circuit *cs.R1CS, text []byte) (witness.Witness, error) {
	return readValues(circuit.Public[1:], circuit.Secret, text)
}

// ReadPublic reads the public values of a circuit, as [ReadWitness] reads all. Secret ones may
// not be there.
func ReadPublic(circuit *cs.R1CS, text []byte) (witness.Witness, error) {
	return readValues(circuit.Public[1:], nil, text)
}

// ReadWitnesses reads witnesses of a circuit as [ReadWitness] reads one, from an array of JSON or from
// objects that follow one another, as on lines.
func ReadWitnesses(circuit *cs.R1CS, text []byte) (all []witness.Witness, err error) {
	in := newReader(circuit.Public[1:], circuit.Secret, text)
	defer clear(in.values)
	defer func() {
		if err != nil {
			for _, w := range all {
				Forget(w)
			}
			all, err = nil, fmt.Errorf("zk: %w: witness %d: %w", ErrWitness, len(all), err)
		}
	}()
	array := in.peek() == '['
	if array {
		in.next++
	}
	for {
		switch c := in.peek(); {
		case array && c == ']' || !array && in.next == len(text):
			if array {
				in.next++
			}
			if in.peek(); in.next < len(text) {
				return all, in.bad()
			}
			return all, nil
		case array && len(all) > 0 && c != ',':
			return all, in.bad()
		case array && len(all) > 0:
			in.next++
		}
		if in.peek() != '{' {
			return all, errNoObject
		}
		if err := in.object(); err != nil {
			return all, err
		}
		w, err := witnessOf(in.values, len(circuit.Public)-1)
		if err != nil {
			return all, err
		}
		all = append(all, w)
	}
}

func readValues(public, secret []string, text []byte) (witness.Witness, error) {
	in := newReader(public, secret, text)
	defer clear(in.values)
	if err := in.read(); err != nil {
		return nil, fmt.Errorf("zk: %w: %w", ErrWitness, err)
	}
	return witnessOf(in.values, len(public))
}

// some names the first of some variables.
func some(names []string) string {
	const most = 6
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// witnessOf makes a witness of values, the public ones first.
func witnessOf(values []fr.Element, public int) (witness.Witness, error) {
	w, err := witness.New(ecc.BN254.ScalarField())
	if err != nil {
		return nil, err
	}
	all := make(chan any)
	go func() {
		defer close(all)
		for i := range values {
			all <- &values[i] // in an interface, a value would be a copy that stays
		}
	}()
	return w, w.Fill(public, len(values)-public, all)
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

// PublicValues returns the public values of a witness of a circuit by the names of their variables.
func PublicValues(circuit *cs.R1CS, w witness.Witness) (map[string]string, error) {
	values, ok := w.Vector().(fr.Vector)
	names := circuit.Public[1:]
	if !ok || len(values) < len(names) {
		return nil, fmt.Errorf("zk: %w: it is not one of the circuit", ErrWitness)
	}
	out := make(map[string]string, len(names))
	for i, name := range names {
		out[name] = values[i].Text(10)
	}
	return out, nil
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
