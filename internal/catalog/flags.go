package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/weft-run/weft/internal/text"
)

// Flags are what can be set of a job: flags of the commands for its workload, and parameters of jobs of a server. The
// methods that add one take where its value goes and the value that it has until it is set.
type Flags struct{ list []*Flag }

// Flag is one of them. Its methods are those of a value of package pflag, by which a command has it.
type Flag struct {
	Name, Usage string
	Shorthand   string // a letter, "" for none
	Default     string // "" also of one that sets several others
	Bare        string // the value if the name stands alone, "" if there must be a value
	Changed     bool   // whether it was set
	value       Value
}

// Value is the variable that a flag sets. Type returns the name of a Go type for those that Flags has a method for.
type Value interface {
	Set(s string) error
	String() string
	Type() string
}

// Set sets the flag.
func (f *Flag) Set(s string) error {
	if err := f.value.Set(s); err != nil {
		return err
	}
	f.Changed = true
	return nil
}

func (f *Flag) String() string { return f.value.String() }

// Type is the type of the value, as help and lists of parameters show it.
func (f *Flag) Type() string { return f.value.Type() }

// variable is a Value that is a variable of a type.
type variable[T any] struct {
	at    *T
	parse func(s string) (T, error)
}

func (v variable[T]) Set(s string) error {
	x, err := v.parse(s)
	if err == nil {
		*v.at = x
	}
	return err
}

func (v variable[T]) String() string { return fmt.Sprint(*v.at) }
func (v variable[T]) Type() string   { return fmt.Sprintf("%T", *v.at) }

// number is a variable whose value must be in decimal digits.
func number[T any](at *T, value T, parse func(s string) (T, error)) Value {
	*at = value
	kind := fmt.Sprintf("%T", value)
	return variable[T]{at, func(s string) (T, error) {
		if err := text.Plain(s, kind); err != nil {
			return *at, err
		}
		return parse(s)
	}}
}

// Var adds a flag with a value of its own type. shorthand is a letter, or "" for none.
func (f *Flags) Var(v Value, name, shorthand, usage string) *Flag {
	added := &Flag{Name: name, Usage: usage, Shorthand: shorthand, Default: v.String(), value: v}
	f.list = append(f.list, added)
	return added
}

// IntVar adds a flag that is an int.
func (f *Flags) IntVar(at *int, name string, value int, usage string) {
	f.Var(number(at, value, strconv.Atoi), name, "", usage)
}

// Uint32Var adds a flag that is a uint32.
func (f *Flags) Uint32Var(at *uint32, name string, value uint32, usage string) {
	f.Var(number(at, value, func(s string) (uint32, error) {
		n, err := strconv.ParseUint(s, 10, 32)
		return uint32(n), err
	}), name, "", usage)
}

// Uint64Var adds a flag that is a uint64.
func (f *Flags) Uint64Var(at *uint64, name string, value uint64, usage string) {
	f.Var(number(at, value, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }), name, "", usage)
}

// Float64Var adds a flag that is a float64.
func (f *Flags) Float64Var(at *float64, name string, value float64, usage string) {
	f.Var(number(at, value, text.ParseNumber), name, "", usage)
}

// BoolVar adds a flag that is true or false, and true where its name stands alone.
func (f *Flags) BoolVar(at *bool, name string, value bool, usage string) {
	*at = value
	f.Var(variable[bool]{at, strconv.ParseBool}, name, "", usage).Bare = "true"
}

// StringVar adds a flag that is a text.
func (f *Flags) StringVar(at *string, name, value, usage string) {
	*at = value
	f.Var(variable[string]{at, func(s string) (string, error) { return s, nil }}, name, "", usage)
}

// All returns the flags by name.
func (f *Flags) All() []*Flag {
	return slices.SortedFunc(slices.Values(f.list), func(a, b *Flag) int { return cmp.Compare(a.Name, b.Name) })
}

// Lookup returns the flag of a name, nil if there is none.
func (f *Flags) Lookup(name string) *Flag {
	i := slices.IndexFunc(f.list, func(g *Flag) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	return f.list[i]
}

// Changed reports whether the flag of a name was set.
func (f *Flags) Changed(name string) bool { return f.Lookup(name).Changed }
