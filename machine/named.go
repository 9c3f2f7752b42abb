package machine

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed machines/*.json
var shipped embed.FS

// Named returns a fresh copy of the machine shipped under a name, for
// simulations and plans without a file at hand.
func Named(name string) (*Machine, bool) {
	if !slices.Contains(Names(), name) {
		return nil, false
	}
	src, err := fs.ReadFile(shipped, "machines/"+name+".json")
	if err != nil {
		panic("machine: " + err.Error())
	}
	m, err := Decode(src)
	if err != nil {
		panic(fmt.Sprintf("machine: machines/%s.json: %v", name, err))
	}
	return m, true
}

// Names lists the shipped machines, sorted.
func Names() []string {
	files, err := fs.Glob(shipped, "machines/*.json")
	if err != nil {
		panic("machine: " + err.Error())
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(f, "machines/"), ".json")
	}
	slices.Sort(names)
	return names
}
