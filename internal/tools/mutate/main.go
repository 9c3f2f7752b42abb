// Command mutate plants small errors into the packages that decide what runs where, one
// at a time, and runs the tests: an error that no test finds is a test that is missing.
//
//	go run ./internal/tools/mutate -n 300 -results /tmp/mutants.jsonl
//
// Mutants are made over the syntax tree and drawn by a seed, so that they can be made
// again after the code has changed. Each is tried as an overlay: no file of the module is
// written. A mutant that the tests of its package do not kill is tried with those of
// packages that depend on it. Results are kept as they come, and what was tried before is
// not tried again: a run can be ended at any time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// packages are those whose mutants are tried.
var packages = []string{"./graph", "./sched", "./internal/engine", "./internal/exec", "./experimental/driver", "./collective"}

// onBytes are the seeds that CI runs on real bytes, with the engine's books recounted.
const onBytes = "./internal/test/bytevm -tags invariants -seeds 400"

// later are tests beyond those of a mutant's own package, quick ones first.
var later = map[string][]string{
	"./graph":               {"./internal/engine", "./experimental/sim -skip Soak", "./collective", "./internal/exec", onBytes},
	"./sched":               {"./internal/engine", "./experimental/sim -skip Soak", "./internal/exec", onBytes},
	"./internal/engine":     {"./experimental/sim -skip Soak", "./internal/exec ./internal/backend/fake", onBytes, "."},
	"./internal/exec":       {"./internal/backend/fake ./internal/backend/cpu", "."},
	"./experimental/driver": {"./internal/backend/cpu ./internal/backend/fake", "./internal/exec", "./internal/backend/proc", onBytes},
	"./collective":          {"./experimental/replica"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, w io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	root := flags.String("root", ".", "the root of the module")
	n := flags.Int("n", 300, "mutants to draw")
	seed := flags.Uint64("seed", 1, "draws the mutants")
	results := flags.String("results", "", "file that results are kept in and read from")
	patterns := flags.String("patterns", "", "list of mutants from outside, tried instead of drawn ones")
	only := flags.String("packages", strings.Join(packages, ","), "packages to plant errors in")
	limit := flags.Duration("limit", 5*time.Minute, "longest time for the tests of a package")
	budget := flags.Duration("budget", 0, "begin no mutant after this long; 0 is never")
	jobs := flags.Int("jobs", 1, "mutants tried at a time")
	own := flags.Bool("own", false, "run the tests of a mutant's own package only")
	files := flags.String("files", "", "draw from files whose path below the root matches this regular expression only")
	tests := flags.String("tests", "", "arguments of go test for the own tests of every mutant; empty runs those of its package")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *results == "" {
		return errors.New("name a file with -results")
	}
	top, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	b := &bench{root: top, scratch: scratch, limit: *limit, jobs: *jobs, budget: *budget, tests: *tests}
	if !*own {
		b.later = later
	}
	var list []mutant
	if *patterns != "" {
		text, err := os.ReadFile(*patterns)
		if err != nil {
			return err
		}
		var missing []string
		list, missing, err = fromPatterns(parsePatterns(string(text)), func(file string) ([]byte, error) { return os.ReadFile(filepath.Join(top, file)) })
		if err != nil {
			return err
		}
		for _, name := range missing {
			fmt.Fprintf(w, "%s: the code it changes is not there\n", name)
		}
	} else {
		all, err := b.all(ctx, strings.Split(*only, ","))
		if err != nil {
			return err
		}
		match, err := regexp.Compile(*files)
		if err != nil {
			return fmt.Errorf("-files: %w", err)
		}
		all = slices.DeleteFunc(all, func(m mutant) bool { return !match.MatchString(m.File) })
		list = draw(all, *seed, *n)
		fmt.Fprintf(w, "%d of %d mutants, seed %d\n", len(list), len(all), *seed)
	}
	done, err := load(*results)
	if err != nil {
		return err
	}
	if err := b.sound(ctx, list, done); err != nil {
		return err
	}
	tried, err := b.each(ctx, list, done, func(i int, o outcome) error {
		fmt.Fprintf(w, "%d/%d %s %s:%d %s: %s %s (%.0f s)\n", i+1, len(list), o.Outcome, o.File, o.Line, o.Kind, o.What, o.By, o.Seconds)
		return save(*results, o)
	})
	if err != nil {
		return err
	}
	summary(w, tried, len(list))
	return nil
}

// all returns the mutants of packages, as they are built here.
func (b *bench) all(ctx context.Context, packages []string) ([]mutant, error) {
	text, err := b.run(ctx, append([]string{"list", "-json=Dir,GoFiles"}, packages...)...)
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, strings.TrimSpace(text))
	}
	var out []mutant
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var pkg struct {
			Dir     string
			GoFiles []string
		}
		if err := d.Decode(&pkg); err == io.EOF {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for _, name := range pkg.GoFiles {
			file := filepath.Join(pkg.Dir, name)
			src, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			short, err := filepath.Rel(b.root, file)
			if err != nil {
				return nil, err
			}
			ms, err := mutants(filepath.ToSlash(short), src)
			if err != nil {
				return nil, err
			}
			out = append(out, ms...)
		}
	}
}

// summary prints the score and the survivors.
func summary(w io.Writer, tried []outcome, of int) {
	type count struct{ killed, survived, invalid int }
	total := count{}
	by := make(map[string]*count)
	for _, o := range tried {
		pkg := filepath.ToSlash(filepath.Dir(o.File))
		if by[pkg] == nil {
			by[pkg] = &count{}
		}
		for _, c := range []*count{by[pkg], &total} {
			switch o.Outcome {
			case killed:
				c.killed++
			case survived:
				c.survived++
			default:
				c.invalid++
			}
		}
	}
	names := make([]string, 0, len(by))
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintf(w, "\n%-20s %7s %9s %13s %6s\n", "package", "killed", "survived", "not compiled", "score")
	row := func(name string, c count) {
		score := "-"
		if n := c.killed + c.survived; n > 0 {
			score = fmt.Sprintf("%.1f%%", 100*float64(c.killed)/float64(n))
		}
		fmt.Fprintf(w, "%-20s %7d %9d %13d %6s\n", name, c.killed, c.survived, c.invalid, score)
	}
	for _, name := range names {
		row(name, *by[name])
	}
	row("all", total)
	if left := of - len(tried); left > 0 {
		fmt.Fprintf(w, "%d of %d were not tried\n", left, of)
	}
	for _, o := range tried {
		if o.Outcome == survived {
			fmt.Fprintf(w, "survived: %s:%d %s: %s\n", o.File, o.Line, o.Kind, o.What)
		}
	}
}
