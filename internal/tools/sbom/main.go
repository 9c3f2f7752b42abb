// Command sbom lists the modules that a Go program was built from, as a CycloneDX document.
//
//	go run ./internal/tools/sbom weft 0.2.0 >weft.cdx.json
//
// It reads what the go command stamped into the program, of whatever platform. The document has neither a time nor
// a serial number, so that it is the same for the same program.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "sbom: which program, and which version? as in sbom weft 0.2.0")
		os.Exit(2)
	}
	if err := run(os.Args[1], "v"+os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(program, version string, w io.Writer) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	info.Main.Version = version // the go command stamps one only where git has a tag
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(documentOf(info))
}

// document is what CycloneDX 1.6 calls a bill of materials.
type document struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// documentOf describes a program: the modules it has, with the sums of go.sum, and the Go version, whose standard
// library is a component too.
func documentOf(info *debug.BuildInfo) document {
	program := component{Type: "application", Name: info.Path, Version: info.Main.Version, PURL: purl(info.Main.Path, info.Main.Version)}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS", "GOARCH", "CGO_ENABLED", "vcs.revision", "vcs.modified":
			program.Properties = append(program.Properties, property{"go:" + s.Key, s.Value})
		}
	}
	d := document{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: metadata{program}}
	d.Components = append(d.Components, component{Type: "library", Name: "std", Version: info.GoVersion, PURL: purl("std", info.GoVersion)})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version)}
		if m.Sum != "" {
			c.Properties = []property{{"go:sum", m.Sum}}
		}
		d.Components = append(d.Components, c)
	}
	return d
}

// purl names a Go module for programs that look for its weaknesses.
func purl(path, version string) string {
	if version == "" {
		return "pkg:golang/" + path
	}
	return "pkg:golang/" + path + "@" + version
}
