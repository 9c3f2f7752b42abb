package main

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/cmd/weft/internal/terminal"
)

// commands calls a function with a command and all below it.
func commands(c *cobra.Command, call func(c *cobra.Command)) {
	call(c)
	for _, below := range c.Commands() {
		commands(below, call)
	}
}

// Every switch of every command is on alone and with on after it, and on or off as the value says, whether a
// space or an equals sign stands before that.
func TestEverySwitch(t *testing.T) {
	root := newRoot()
	seen := map[string]int{}
	commands(root, func(c *cobra.Command) {
		if c == root {
			return
		}
		c.InheritedFlags() // cobra adds them to Flags
		c.Flags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if kind != "bool" && kind != terminal.SwitchType || f.Name == "help" {
				return
			}
			seen[kind]++
			for _, given := range []struct {
				args string
				on   bool
			}{
				{"", true}, {" on", true}, {"=on", true}, {" true", true}, {"=true", true},
				{" off", false}, {"=off", false}, {" false", false}, {"=false", false},
			} {
				line := strings.TrimPrefix(c.CommandPath(), "weft ") + " --" + f.Name + given.args
				found, rest, err := root.Find(terminal.Switches(root, strings.Fields(line)))
				if err == nil {
					err = found.ParseFlags(rest)
				}
				value := f.Value.String()
				if on := value == "on" || value == "true"; err != nil || found != c || on != given.on || len(found.Flags().Args()) > 0 {
					t.Errorf("weft %s: %s is %q, arguments %q: %v", line, f.Name, value, found.Flags().Args(), err)
				}
			}
		})
	})
	if seen["bool"] < 30 || seen[terminal.SwitchType] < 30 {
		t.Errorf("%v switches were seen", seen)
	}
}

// No command has a flag of its own with the name of a setting of the runtime that it takes: the setting could
// not be given to that command.
func TestFlagsHideNothing(t *testing.T) {
	commands(newRoot(), func(c *cobra.Command) {
		for above := c.Parent(); above != nil; above = above.Parent() {
			c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
				if hidden := above.PersistentFlags().Lookup(f.Name); hidden != nil && hidden != f {
					t.Errorf("%s --%s hides the flag of %s: %s", c.CommandPath(), f.Name, above.CommandPath(), hidden.Usage)
				}
			})
		}
	})
}

// weft version says what --version says, and more.
func TestVersion(t *testing.T) {
	text, short := works(t, "version"), works(t, "--version")
	if lines := strings.Split(text, "\n"); lines[0]+"\n" != short || !strings.HasPrefix(short, "weft "+release) || len(lines) != 3 || !strings.Contains(lines[1], runtime.Version()) {
		t.Errorf("%q, and --version %q", text, short)
	}
	for _, args := range []string{"version --json", "version --json on", "version --json=true"} {
		var v versionJSON
		if err := json.Unmarshal([]byte(works(t, strings.Fields(args)...)), &v); err != nil || v.Version != release || v.Go != runtime.Version() || v.Platform != runtime.GOOS+"/"+runtime.GOARCH {
			t.Errorf("weft %s: %+v, %v", args, v, err)
		}
	}
	if code, _, stderr := runWeft("version", "now"); code != exitUsage || !strings.Contains(stderr, "takes no arguments") {
		t.Errorf("weft version now: status %d, %q", code, stderr)
	}
	if v := (versionJSON{Version: "1", Commit: "abc", Changed: true}); v.String() != "1 (abc, changed)" {
		t.Errorf("%v", v)
	}
}
