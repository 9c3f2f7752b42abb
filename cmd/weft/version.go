package main

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

// release is the version that CHANGELOG.md opens with.
const release = "0.1.0"

// commit is the commit of a release, which .ci/release sets: what the go command stamps by itself depends on tags.
var commit string

// versionJSON says what this program is and what it was built from.
type versionJSON struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`  // where the go command stamped it
	Changed  bool   `json:"changed,omitempty"` // files were changed that the commit does not have
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// built reads what the go command stamped into the program.
func built() versionJSON {
	v := versionJSON{Version: release, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = s.Value[:min(len(s.Value), 12)]
			case "vcs.modified":
				v.Changed = s.Value == "true"
			}
		}
	}
	return v
}

// String is the release and, where it is known, the commit.
func (v versionJSON) String() string {
	changed := ""
	if v.Changed {
		changed = ", changed"
	}
	if v.Commit == "" {
		return v.Version
	}
	return fmt.Sprintf("%s (%s%s)", v.Version, v.Commit, changed)
}

// newVersion makes the command that says which version this is.
func newVersion() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:               "version",
		Short:             "Show the version of this program",
		Long:              "Show the version of this program, the commit it was built from where that is\nknown, the version of Go and the platform. weft --version shows the first line\nalone.",
		Example:           "  weft version\n  weft version --json",
		Args:              terminal.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			v := built()
			return terminal.Print(c, asJSON, v, func(b *bytes.Buffer) error {
				fmt.Fprintf(b, "weft %s\n%s on %s\n", v, v.Go, v.Platform)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write the version as JSON")
	return c
}
