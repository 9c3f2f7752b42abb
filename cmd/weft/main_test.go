package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weft-run/weft/cmd/weft/internal/chaos"
	"github.com/weft-run/weft/cmd/weft/internal/terminal"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
	"github.com/weft-run/weft/experimental/sim"
	"github.com/weft-run/weft/internal/backend/all"
	"github.com/weft-run/weft/internal/backend/cuda/cudatest"
	"github.com/weft-run/weft/internal/backend/proc"
	"github.com/weft-run/weft/machine"
	"github.com/weft-run/weft/sched"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the files under testdata")

// TestMain keeps what is measured in a folder of its own: the commands of a test
// measure once, and never see what the user's have measured.
func TestMain(m *testing.M) {
	proc.Main(chaos.Makers(kernels))
	if os.Getenv("WEFT_TEST_MAIN") != "" {
		main()
	}
	flag.Parse()
	if testing.Short() {
		demoLayers = 5
	}
	dir, err := os.MkdirTemp("", "weft-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("XDG_CACHE_HOME", dir)
	code := m.Run()
	os.RemoveAll(dir)
	cudatest.Remove()
	os.Exit(code)
}

// runWeft runs the command and returns its exit status and what it printed.
func runWeft(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// besidesSlowness returns what is said on standard error but for warnings of tasks that take long, as they do where
// other programs have the processors for seconds.
func besidesSlowness(stderr string) string {
	var out strings.Builder
	for line := range strings.Lines(stderr) {
		if !strings.Contains(line, "a task takes long") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// works runs the command, which must succeed in silence.
func works(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := runWeft(args...)
	if code != exitOK || besidesSlowness(stderr) != "" {
		t.Fatalf("weft %s: status %d, %q", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// write puts a file into a temporary directory and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// What depends on nothing but tables is golden.
func TestGolden(t *testing.T) {
	for name, args := range map[string][]string{
		"machines":  {"machines"},
		"mixed":     {"machines", "mixed"},
		"partition": {"partition", "--items", "10000", "--scores", "95,80"},
		"dynamic":   {"partition", "--by", "dynamic", "--items", "75", "--scores", "95,80", "--util", "0.8,0.3"},
		"protein":   {"partition", "--structure", "1CRN", "--scores", "2,1"},
		"two":       {"sim", "testdata/two.json", "testdata/four.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			got := works(t, args...)
			file := filepath.Join("testdata", name+".golden")
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("weft %s printed\n%s\nwant\n%s", strings.Join(args, " "), got, want)
			}
		})
	}
}

// sim --list has a line for every machine, scenario and policy, under its heading, and
// none is wider than the terminal.
func TestList(t *testing.T) {
	got := works(t, "sim", "--list")
	at := 0
	next := func(text string) {
		t.Helper()
		i := strings.Index(got[at:], text)
		if i < 0 {
			t.Fatalf("no %q behind\n%s", text, got[:at])
		}
		at += i + len(text)
	}
	for kind, l := range []struct {
		heading string
		names   []string
	}{{"machines\n", machine.Names()}, {"\n\nscenarios\n", scenarioNames()}, {"\n\npolicies\n", sched.Names()}} {
		next(l.heading)
		for _, name := range l.names {
			next(fmt.Sprintf("  %-17s ", name))
			if kind == 2 {
				next(sched.About(name))
			}
		}
	}
	for _, line := range strings.Split(got, "\n") {
		if utf8.RuneCountInString(line) > terminal.Width {
			t.Errorf("%q is wider than %d", line, terminal.Width)
		}
	}
}

// Every mistake is one line that says where, what, and what would be right.
func TestMistakesOfUsers(t *testing.T) {
	badMachine := write(t, "m.json", "{\n  \"devices\": [\n    {\"name\": \"a\", \"kind\": \"gpu\"}\n  ]\n}\n")
	numbered := write(t, "n.json", "{\"name\": 7}\n")
	badGraph := write(t, "g.json", "{\n  \"tasks\": [\n    {\"kernel\": \"k\", \"uses\": [{\"data\": \"x\"}]}\n  ]\n}\n")
	cutGraph := write(t, "cut.json", "{\"tasks\": [\n")
	badScenario := write(t, "s.txt", "independent n=10\nwobble n=3\n")
	badFaults := write(t, "f.txt", "# nothing yet\nat 1ms lose cuda:9\n")
	badConfig := write(t, "weft.conf", "devices = cpu\npolcy = steal\n")
	notTrace := write(t, "t.json", "[1, 2]")
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		want string // the whole line, or its beginning and end around "…"
	}{
		{"smi", `weft: unknown command "smi"; did you mean sim?`},
		{"demo", `weft: unknown command "demo"; did you mean run demo?`},
		{"frobnicate", `weft: unknown command "frobnicate"; there are bench, chaos, checkpoint, completion, devices, doctor, kernels, load, machines, partition, plan, run, serve, sim, top, trace, train, version, zk`},
		{"help frobnicate", `weft: unknown command "frobnicate"; there are …trace`},
		{"--frob", "weft: unknown flag: --frob; weft --help lists the flags"},
		{"sim --frob", "weft: unknown flag: --frob; weft sim --help lists the flags"},
		{"sim mixed uniform --noise x", "weft: --noise x: it must be a number"},
		{"sim", "weft: sim needs a machine and work: weft sim mixed skewed; --list shows the names"},
		{"sim mixed", "weft: sim needs a machine and work: weft sim mixed skewed; --list shows the names"},
		{"sim nowhere uniform", "weft: nowhere: no such machine; give a file, or one of " + strings.Join(machine.Names(), ", ")},
		{"sim mixed nothing", "weft: nothing: no such scenario or graph; give a file, or one of " + strings.Join(scenarioNames(), ", ")},
		{"sim mixed uniform --policy best", `weft: policy "best": unknown name; use one of ` + strings.Join(sched.Names(), ", ")},
		{"sim mixed uniform --noise 2", "weft: --noise 2: it must be from 0 to 0.9"},
		{"sim mixed uniform --noise NaN", "weft: --noise NaN: it must be a number"},
		{"sim mixed uniform --noise 0x1p-2", "weft: --noise 0x1p-2: it must be a number"},
		{"run gemm --m 0.5", "weft: --m 0.5: it must be a whole number"},
		{"run gemm --m 010", "weft: --m 010: it must not begin with 0, since some programs read that as octal"},
		{"run gemm --m 0x10", "weft: --m 0x10: it must be a whole number"},
		{"run gemm --seed 1_0", "weft: --seed 1_0: it must be a whole number"},
		{"run msm --size 010", "weft: --size 010: …"},
		{"sim mixed uniform --width 3", "weft: --width 3: it must be from 40 to 1000"},
		{"sim mixed uniform --explain nobody", "weft: --explain nobody: no such task; give a name, a number from 0, or all"},
		{"sim mixed uniform --faults gone.txt", "weft: gone.txt: no such fault script"},
		{"sim " + badMachine + " uniform", "weft: " + badMachine + ":3: …"},
		{"sim " + dir + " uniform", "weft: " + dir + ": is a directory"},
		{"sim mixed " + badGraph, "weft: " + badGraph + ":3: …"},
		{"sim mixed " + cutGraph, "weft: " + cutGraph + ":…"},
		{"sim mixed " + badScenario, "weft: " + badScenario + `:2: unknown generator or fault "wobble"; generators are ` + strings.Join(sim.Generators(), ", ")},
		{"sim mixed uniform --faults " + badFaults, "weft: " + badFaults + ":2: …"},
		{"trace", "weft: trace needs one file, …"},
		{"trace gone.json", "weft: gone.json: no such file; weft sim mixed skewed --trace gone.json writes one"},
		{"trace " + notTrace, "weft: " + notTrace + ": …"},
		{"machines a b", "weft: machines takes one name or file at most"},
		{"machines nowhere", "weft: nowhere: no such machine; …"},
		{"run", "weft: run needs a workload: " + strings.Join(workloadsAndDemo(), ", ")},
		{"run nope", `weft: unknown workload "nope"; there are ` + strings.Join(workloadsAndDemo(), ", ")},
		{"run nope --check", `weft: unknown workload "nope"; there are …`},
		{"run gem --size 8", `weft: unknown workload "gem"; did you mean gemm?`},
		{"run gemm --frob", "weft: unknown flag: --frob; weft run gemm --help lists the flags"},
		{"bench scalling --json", `weft: unknown benchmark "scalling"; did you mean scaling?`},
		{"smi --json", `weft: unknown command "smi"; did you mean sim?`},
		{"run gemm --size 0", "weft: gemm: 0 × 0 times 0 × 0: not valid: sizes must be from 1 to 65536"},
		{"run gemm --devices gpu", `weft: bad option: devices: no backend "gpu"; there is ` + strings.Join(all.Names(), ", ")},
		{"run gemm --devices cpu:99", `weft: bad option: devices: no device "cpu:99" here; there is cpu:0`},
		{"run gemm --repeat 0", "weft: --repeat 0: run at least once"},
		{"run gem", `weft: unknown workload "gem"; did you mean gemm?`},
		{"run gemm stray", `weft: run gemm takes no arguments, only flags; "stray" is too much`},
		{"run gemm --size abc", "weft: --size abc: it must be a whole number"},
		{"run gemm --m abc", "weft: --m abc: it must be a whole number"},
		{"run gemm --size 99999999999999999999", "weft: --size 99999999999999999999: it is too large or too small a number"},
		{"run gemm --m 99999999999999999999", "weft: --m 99999999999999999999: it is too large or too small a number"},
		{"run automata --seed 4294967296", "weft: --seed 4294967296: it is too large or too small a number"},
		{"run gemm --retries 2147483648", `weft: --retries 2147483648: "2147483648" is too large a count; write 2147483647 at most`},
		{"run gemm --verify 010", `weft: --verify 010: "010" begins with 0, and some programs read that as octal; write it without that zero, or none`},
		{"run gemm --verify 1_0", `weft: --verify 1_0: "1_0" is not a whole number; write one in decimal digits, as 10, or none`},
		{"run gemm --polcy steal", "weft: unknown flag: --polcy; did you mean --policy?"},
		{"run gemm --policy best", "weft: --policy best: unknown name; use one of " + strings.Join(sched.Names(), ", ")},
		{"run gemm --host-bytes lots", "weft: --host-bytes lots: …"},
		{"run gemm --exact=perhaps", "weft: --exact perhaps: it must be on or off"},
		{"run gemm --exact perhaps", `weft: run gemm takes no arguments, only flags; "perhaps" is too much`},
		{"run gemm --check=maybe", "weft: --check maybe: it must be on or off"},
		{"run gemm --devices cpu:0,cuda:7", `weft: bad option: devices: no device "cuda:7" here; there is cpu:0…`},
		{"run gemm --trace " + filepath.Join(t.TempDir(), "trace") + " --devices cpu:7", `weft: bad option: devices: no device "cpu:7" here; there is cpu:0`},
		{"run gemm --devices cpu/2,cpu:7", `weft: bad option: devices: no device "cpu:7" here; there is cpu:0, cpu:1`},
		{"run gemm --devices cpu:1/2", `weft: bad option: devices: no device "cpu:1/2" here; there is cpu:0`},
		{"run fisher --points 3", "weft: fisher: 8 shards of 3 points: not valid: there must be 1 to 3 shards, each with a point"},
		{"run fisher --features 4 --blocks 5", "weft: fisher: 5 blocks of 4 features: not valid: there must be 1 to 4 blocks, each with a feature"},
		{"run fisher --shards 0", "weft: --shards 0: it must be at least 1"},
		{"run fisher --blocks 0", "weft: --blocks 0: it must be at least 1"},
		{"run tropical-net --shards 0", "weft: --shards 0: it must be at least 1"},
		{"run landscape --structure " + notTrace, "weft: landscape: protein: " + notTrace + ": no C-alpha atom; give a protein in the PDB or mmCIF format: not a usable structure"},
		{"run tropical-net --batch 5", "weft: tropical net: 8 shards of a batch of 5: bad training: there must be 1 to 5 shards, each with a sample"},
		{"run fusion --records 64 --mode hybrid --copies 9 --devices cpu/2", "weft: fusion 64 records…: 9 copies on 2 devices: there must be 1 to 2"},
		{"run demo --policy steal", "weft: --policy: the demo is simulated and has no runtime to set"},
		{"sim mixed skewed extra", `weft: sim takes a machine and work; "extra" is too much`},
		{"sim --list mixed", `weft: sim --list takes no arguments; "mixed" is too much`},
		{"sim " + numbered + " uniform", "weft: " + numbered + ":1: name: expected text in quotes"},
		{"run gemm --config gone.conf", "weft: bad option: configuration: …gone.conf"},
		{"run gemm --config " + badConfig, "weft: bad option: " + badConfig + ":2: …policy"},
		{"devices --policy steal", "weft: unknown flag: --policy; …"},
		{"bench", "weft: bench needs a benchmark: balance, checkpoint, collective, compare, domains, …"},
		{"bench scalling", `weft: unknown benchmark "scalling"; did you mean scaling?`},
		{"bench overhead --tasks 0", "weft: --tasks 0: it must be from 1 to 10000000"},
		{"bench memory --sizes x", "weft: --sizes x: a size is written such as 16MiB and is at least 64"},
		{"bench memory --sizes=", "weft: --sizes is empty: a size is written such as 16MiB"},
		{"bench collective --sizes=", "weft: --sizes is empty: a size is written such as 1MiB"},
		{"bench suite --sizes=", "weft: --sizes is empty: a size is written such as 16MiB"},
		{"bench suite --tasks 0", "weft: --tasks 0: it must be from 1 to 10000000"},
		{"bench scaling --counts x", "weft: --counts x: it must be whole numbers joined by commas"},
		{"bench scaling --at-least -1s", "weft: --at-least -1s: it must not be negative"},
		{"bench suite --at-least -1s", "weft: --at-least -1s: it must not be negative"},
		{"bench suite --only gem", `weft: unknown workload "gem"; did you mean gemm?`},
		{"bench balance --only gemm", `weft: unknown work "gemm"; there are triangle, landscape, automata`},
		{"bench scaling --devices cpu/2 --counts 3", "weft: --counts 3: there are 2 devices"},
		{"bench scaling --devices cpu/2 --limit --pin on", "weft: --limit is for cores that are not pinned; use --devices cpu/N, --pin off"},
		{"bench scaling --devices cpu/2 --limit --counts 1", "weft: --limit is of several devices; use larger --counts"},
		{"bench scaling --only gem", `weft: unknown workload "gem"; did you mean gemm?`},
		{"doctor now", `weft: doctor takes no arguments, only flags; "now" is too much`},
		{"bench scaling --devices cpu", "weft: this needs several devices; ask for them, as in --devices cpu/2"},
		{"partition", "weft: --scores is missing: …"},
		{"partition --scores 1,2 --util 1", "weft: --util has 1 number for 2 scores"},
		{"partition --scores 1,2 --util 2,3", "weft: --util 2: it must be from 0 to 1"},
		{"partition --scores 1,2 --util 0.5,-0.1", "weft: --util -0.1: it must be from 0 to 1"},
		{"partition --scores 1,2 --util NaN,0", "weft: --util NaN: it must be from 0 to 1"},
		{"partition --scores -1,2", "weft: --scores -1: it must be a finite number, not negative"},
		{"partition --scores 2,Inf", "weft: --scores +Inf: it must be a finite number, not negative"},
		{"partition --scores 1,2 --items -1", "weft: --items -1: it must not be negative"},
		{"partition --scores 0,0", "weft: …"},
		{"partition --structure 1CRN --scores 1,0", "weft: partition: part 1 has weight 0: bad partition: it must be a positive number"},
		{"partition --structure 1CRN --scores 1,1 --by equal", "weft: --by equal: a structure is cut by clusters, domains, ranges"},
		{"partition --structure 1CRN --scores 1,1 --items 3", "weft: --structure goes with neither --items nor --util"},
		{"partition --chain A --scores 1,1", "weft: --chain A: it goes with --structure"},
		{"partition --structure " + notTrace + " --scores 1,1", "weft: protein: …"},
		{"run elastic --structure 1CRN --cutoff 3", "weft: elastic: 1CRN: not valid: the GNM at 3 Å falls into 46 parts; raise the cutoff or take one chain"},
		{"run enumerative --k 20 --n 60", "weft: enumerative: Gr(20,60): not valid: k must be 1 to 16 and n at most 64"},
		{"run enumerative --problem hypersurface --k 3", "weft: enumerative: spaces of dimension 2 on a hypersurface in a space of dimension 23: not valid: no degree has finitely many; n 8 has, with degree 4"},
		{"run enumerative --problem schubert --classes x", "weft: enumerative: classes \"x\": not valid: …"},
		{"run msm --size 2^x", "weft: --size 2^x: it must be a whole number, or a power of two as 2^16"},
		{"run msm --size 0", "weft: msm: 0 points: bad points or scalars: there must be 1 to 268435456"},
		{"run msm --group g3", "weft: msm: no group \"g3\": bad points or scalars: there is g1, g2"},
		{"run ntt --size 3", "weft: --size 3: it must be a power of two, as 2^20 or 1048576"},
		{"run ntt --size 2^x", "weft: --size 2^x: it must be 2^ and a whole number, as 2^20"},
		{"run ntt --size 2^27", "weft: ntt: 2^27 elements: not valid: there may be 2^0 to 2^26"},
		{"run autodiff --expr sin(x", "weft: autodiff: column 4: this bracket is not closed: bad expression"},
		{"run autodiff --problem helmholtz --expr x", "weft: autodiff: an expression for problem helmholtz: not valid: only problem expression has one"},
		{"run autodiff --directions 0", "weft: --directions 0: it must be at least 1"},
		{"run clifford --count 99999999999999", "weft: clifford: 99999999999999 multivectors of Cl(3,0): not valid: there must be 1 to 33554432"},
		{"run gemm --size 99999999", "weft: gemm: 99999999 × 99999999 times 99999999 × 99999999: not valid: sizes must be from 1 to 65536"},
		{"plan fald", `weft: unknown workload "fald"; did you mean fold?`},
		{"run elastic --structure 1CRN --residues 9", "weft: elastic: a helix of 9 residues and structure \"1CRN\": not valid: name one of the two"},
		{"run phase --structure " + notTrace, "weft: protein: …"},
		{"partition --scores 1 --by luck", "weft: partitioner \"luck\": unknown name; …"},
		{"load", "weft: load needs the address of one server, such as http://localhost:8000, grpc://localhost:8001/MODEL or unix:/PATH"},
		{"load localhost:8000", `weft: address "localhost:8000": neither http nor https; write http://HOST:PORT, https://HOST:PORT, unix:/PATH or grpc://HOST:PORT/MODEL`},
		{"load http://x --rate 0", "weft: a rate of 0; it must be more than 0 …"},
		{"load http://x --rate 1,NaN", "weft: a rate of NaN; it must be more than 0 …"},
		{"load http://x --rate a", "weft: --rate a: it must be numbers joined by commas"},
		{"load http://x --rate=", "weft: --rate : it must be numbers joined by commas"},
		{"load http://x --arrivals bursts", `weft: arrivals "bursts"; they are constant or poisson`},
		{"load http://x --duration 0s", "weft: a duration of 0s; …"},
		{"load http://x --connections 0", "weft: --connections 0: it must be from 1 to 16384"},
		{"load http://x --batch -1", "weft: --batch -1: it must not be negative"},
		{"load http://x --timeout 1ns", "weft: a timeout of 1ns; it must be from 1ms to 1h"},
		{"load http://x --token-file gone", "weft: gone: no such file or directory"},
		{"load http://x --ca-file " + notTrace, "weft: --ca-file is for servers by https or grpcs, and the address is http://x"},
		{"load https://x --ca-file " + notTrace, "weft: " + notTrace + ": no certificate in PEM"},
		{"load http://x --input x=gone.npy", "weft: gone.npy: no such file or directory"},
		{"load http://x --input " + notTrace, "weft: " + notTrace + ": bad array: …"},
		{"train", "weft: train needs a model: reservoir"},
		{"train reservoir", "weft: what to train for is missing: use --task with digits, memory, narma10 or a file of patterns"},
		{"train reservoir --task digit", "weft: digit: no such task; give a file, or one of digits, memory, narma10"},
		{"train reservoir --task digits --task memory", "weft: --task digits, memory: train for one task at a time; only files can be several"},
		{"train reservoir --task " + notTrace, "weft: " + notTrace + ":1: not a task: …"},
		{"train reservoir --task digits --size 0", "weft: --size 0: use 1 to 32768 neurons"},
		{"train reservoir --task digits --radius 1", "weft: reservoir: spectral radius 1: …"},
		{"train reservoir --task digits --mode foo", `weft: unknown mode "foo"; there are histogram, sequence`},
		{"train reservoir --task digits --mode histogram --steps 3", "weft: --steps 3: mode histogram has one step"},
		{"train reservoir --task digits --lambda -1", "weft: --lambda -1: use a number from 0 on"},
		{"train reservoir --task digits --seeds 3", "weft: --seeds is for --task memory"},
		{"train reservoir --task memory --lambda 3", "weft: --lambda: the memory of a reservoir is measured without"},
		{"completion tcsh", "weft: completion needs a shell: bash, fish, powershell or zsh; …"},
	} {
		code, stdout, stderr := runWeft(strings.Fields(c.args)...)
		line, rest, _ := strings.Cut(stderr, "\n")
		begin, end, open := strings.Cut(c.want, "…")
		end = strings.ReplaceAll(end, "…", "")
		switch {
		case code != exitUsage:
			t.Errorf("weft %s: status %d, want %d", c.args, code, exitUsage)
		case stdout != "" || rest != "":
			t.Errorf("weft %s: more than a line: %q, %q", c.args, stdout, stderr)
		case !open && line != c.want, !strings.HasPrefix(line, begin), !strings.Contains(line, end):
			t.Errorf("weft %s:\n %s\nwant\n %s", c.args, line, c.want)
		}
	}
}

func workloadsAndDemo() []string {
	return slices.Sorted(slices.Values(append(workloads.Names(), "demo", "fold")))
}

// What goes wrong in a run is a failure, not a mistake of the user's.
func TestFailure(t *testing.T) {
	cancel := write(t, "cancel.txt", "at 100us cancel 1\n")
	code, stdout, stderr := runWeft("sim", "mixed", "uniform", "--faults", cancel)
	if code != exitFailure || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "weft: run 1 (independent): run cancelled; ") {
		t.Errorf("a cancelled run: status %d, %q", code, stderr)
	}
	if !strings.Contains(stdout, "none: 1 run failed") || strings.Contains(stdout, "efficiency") {
		t.Errorf("a cancelled run reports\n%s", stdout)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	for _, args := range []string{"run demo", "sim mixed uniform", "trace nothing.json"} {
		stderr.Reset()
		code := run(ctx, strings.Fields(args), &stdout, &stderr)
		if code != exitInterrupted || besidesSlowness(stderr.String()) != "weft: interrupted\n" || stdout.Len() > 0 {
			t.Errorf("weft %s: status %d, %q, %q", args, code, stdout.String(), stderr.String())
		}
	}
	file := filepath.Join(t.TempDir(), "out.json")
	s := simulation{machine: &machine.Machine{}, work: &work{}, result: &sim.Result{}}
	out, err := terminal.OpenOutput(&cobra.Command{}, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.saveTrace(ctx, out); err == nil {
		t.Error("a trace was written after the interrupt")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("half a trace was left behind")
	}
}

// A trace that is written to "-" is all that standard output has.
func TestTraceDash(t *testing.T) {
	two, four := must(filepath.Abs("testdata/two.json")), must(filepath.Abs("testdata/four.txt"))
	t.Chdir(t.TempDir())
	for _, args := range []string{"sim " + two + " " + four, "run gemm --size 8 --repeat 1 --calibrate off"} {
		code, stdout, stderr := runWeft(append(strings.Fields(args), "--trace", "-")...)
		if code != exitOK || !json.Valid([]byte(stdout)) || !strings.Contains(stderr, "utilisation") && !strings.Contains(stderr, "busy") {
			t.Errorf("weft %s --trace -: status %d, printed\n%.200s\nand to standard error\n%s", args, code, stdout, stderr)
		}
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("files were made: %v, %v", left, err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Commands that print also print JSON, with the figures of the text.
func TestJSON(t *testing.T) {
	read := func(into any, args ...string) {
		t.Helper()
		text := works(t, append(args, "--json")...)
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(into); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, text)
		}
	}
	var part partitionJSON
	read(&part, "partition", "--items", "10000", "--scores", "95,80")
	if len(part.Devices) != 2 || part.Devices[0].Items != 5429 || part.Devices[1] != (partJSON{1, 80, 5429, 10000, 4571}) {
		t.Errorf("%+v", part)
	}
	var names map[string][]nameJSON
	read(&names, "sim", "--list")
	if len(names["machines"]) != len(machine.Names()) || len(names["policies"]) != len(sched.Names()) || names["scenarios"][0].Name != scenarioNames()[0] {
		t.Errorf("%+v", names)
	}
	file := filepath.Join(t.TempDir(), "out.json")
	live := simulated(t, "testdata/two.json", "testdata/four.txt", "--trace", file)
	var saved traceJSON
	read(&saved, "trace", file)
	if !saved.Simulated || saved.Tasks != 4 || saved.Makespan != live.Makespan || len(saved.Devices) != 2 || saved.Devices[0].Compute != live.Devices[0].Busy {
		t.Errorf("%+v", saved)
	}
	var told demoJSON
	read(&told, "run", "demo")
	if !told.Simulated || len(told.Placements) != 3 || told.Loss == nil || told.Loss.Makespan <= told.Placements[2].Makespan || told.Bound > told.Placements[2].Makespan {
		t.Errorf("%+v", told)
	}
	sum := 0.0
	for _, share := range told.Placements[1].Shares {
		sum += share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("devices share %v of the tasks", sum)
	}
}

// A switch takes its value after a blank or an equals sign.
func TestSwitches(t *testing.T) {
	for _, args := range []string{"--fault-tolerance off --exact on", "--fault-tolerance=off --exact=true"} {
		var s settings
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.bind(f)
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if o, err := s.options(); err != nil || !o.NoFaultTolerance || !o.Exact || o.Pin {
			t.Errorf("%s: %+v, %v", args, o, err)
		}
	}
	if help := works(t, "run", "demo", "--help"); strings.Contains(help, "--policy") || !strings.Contains(help, "--json") {
		t.Errorf("the demo's help:\n%s", help)
	}
}

// What a machine is printed as can be read again.
func TestMachineRoundTrip(t *testing.T) {
	for _, name := range machine.Names() {
		text := works(t, "machines", name, "--json")
		if again := works(t, "machines", write(t, "m.json", text), "--json"); again != text {
			t.Errorf("%s printed\n%s\nand then\n%s", name, text, again)
		}
	}
}

// The output in examples/README.md is what the command really prints, up to the verdict.
func TestExampleOutput(t *testing.T) {
	const file, command = "../../examples/README.md", "$ go run ./cmd/weft sim mixed skewed\n"
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(src), command)
	shown, after, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("no output of %q in %s", command, file)
	}
	text := works(t, "sim", "mixed", "skewed")
	// Header, timeline, devices and verdict are four blocks after the title.
	want := strings.Join(strings.SplitN(text, "\n\n", 6)[:5], "\n\n") + "\n"
	if shown == want {
		return
	}
	if !*rewrite {
		t.Fatalf("%s shows\n%s\nand the command prints\n%s\nrun: go test ./cmd/weft -rewrite", file, shown, want)
	}
	if err := os.WriteFile(file, []byte(before+command+want+"```"+after), 0o666); err != nil {
		t.Fatal(err)
	}
}

// The commands of examples/README.md.
func TestExamples(t *testing.T) {
	src, err := os.ReadFile("../../examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // one of them writes a file
	ran := 0
	for part := range strings.SplitSeq(string(src), "`") {
		command, ok := strings.CutPrefix(part, "weft ")
		if !ok {
			continue
		}
		works(t, strings.Fields(strings.ReplaceAll(command, "examples/", examples+"/"))...)
		ran++
	}
	if ran < 5 {
		t.Errorf("only %d commands found in examples/README.md", ran)
	}
}

func TestCompletion(t *testing.T) {
	for args, want := range map[string][]string{
		"sim ":                        machine.Names(),
		"sim mixed ":                  scenarioNames(),
		"sim mixed uniform --policy ": sched.Names(),
		"partition --by ":             append(sched.PartitionerNames(), proteinParts...),
		"machines ":                   machine.Names(),
		"run ":                        workloadsAndDemo(),
		"run gemm --policy ":          sched.Names(),
		"bench scaling --devices ":    deviceNames(),
		"devices --devices ":          deviceNames(),
		"train reservoir --task ":     trainTasks,
		"bench scaling --only ":       workloads.Names(),
		"bench sync --partitioner ":   sched.PartitionerNames(),
	} {
		_, stdout, _ := runWeft(append([]string{"__complete"}, strings.Split(args, " ")...)...)
		lines := strings.Split(stdout, "\n")
		for i := range lines { // a name, and for subcommands what it is
			lines[i], _, _ = strings.Cut(lines[i], "\t")
		}
		if len(lines) < len(want) || strings.Join(lines[:len(want)], " ") != strings.Join(want, " ") {
			t.Errorf("weft %s completes to\n%swant %v", args, stdout, want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	if help := works(t); !strings.Contains(help, "weft run demo") || help != works(t, "--help") || help != works(t, "help") {
		t.Errorf("weft, weft --help and weft help differ, or say nothing of the demo:\n%s", help)
	}
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(changes), "\n## ")
	newest, _, _ := strings.Cut(rest, "\n")
	if got := works(t, "--version"); !strings.HasPrefix(got, "weft "+newest) || newest == "" {
		t.Errorf("the version is %q, and the change log opens with %q", got, newest)
	}
	if got := works(t, "help", "sim"); got != works(t, "sim", "--help") {
		t.Errorf("weft help sim differs from weft sim --help:\n%s", got)
	}
	for args, want := range map[string]string{
		"chaos": "(default 1s)", "chaos gemm": "(default 1s)", "run gemm": "(default 10s)", "run network": "the larger weight counts",
	} {
		if help := strings.Join(strings.Fields(works(t, append(strings.Fields(args), "--help")...)), " "); !strings.Contains(help, want) {
			t.Errorf("weft %s --help does not say %q:\n%s", args, want, help)
		}
	}
}

// full is output that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Help that cannot be written is a failure, as other output is.
func TestHelpOnAFullDisk(t *testing.T) {
	for _, args := range []string{"", "--help", "help sim", "run --help", "run gemm --help", "version"} {
		var stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), full{}, &stderr); code != exitFailure || stderr.String() != "weft: no space left on device\n" {
			t.Errorf("weft %s: status %d, %q", args, code, &stderr)
		}
	}
}

// No line of any help is longer than a terminal of 80 columns.
func TestHelpWidth(t *testing.T) {
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		help := works(t, append(path, "--help")...)
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > terminal.Width {
				t.Errorf("weft %s --help has a line of %d columns:\n%s", strings.Join(path, " "), n, line)
			}
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" { // whose text is cobra's
				visit(sub, append(path[:len(path):len(path)], sub.Name()))
			}
		}
	}
	visit(newRoot(), nil)
}
