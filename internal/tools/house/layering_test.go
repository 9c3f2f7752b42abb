package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// module is the path of the root's module, with which those of the others begin.
const module = "github.com/weft-run/weft"

// room is a package of the house and what it may bring in.
type room struct {
	pkg     string   // folder, "." for the root; a pattern for folders without a row of their own
	imports []string // packages of this module, by path or pattern; "*" for any
	modules []string // third-party modules
	pure    bool
	why     string // why it may import no more than that
}

// portable is why workloads import no backend.
const portable = "a workload brings its kernels as values and runs wherever they can: it must not know a backend"

// house lists every package there is. A new package gets a row here, with a
// purpose that can be said in one sentence without "and". Workloads and backends share
// one row each.
var house = []room{
	{pkg: "internal/text", pure: true,
		why: "what people write is read the same way whatever it stands for"},
	{pkg: "graph", pure: true, imports: []string{"internal/text"},
		why: "graph is the vocabulary everybody shares: whatever it imports, every workload and backend imports"},
	{pkg: "machine", pure: true, imports: []string{"graph", "internal/text"},
		why: "machine describes and predicts; who schedules or runs is above it"},
	{pkg: "sched", pure: true, imports: []string{"graph", "machine", "internal/text"},
		why: "policies decide on a snapshot they are given, so that any loop can use them"},
	{pkg: "fault", pure: true,
		why: "what two products share must bring neither into the other"},
	{pkg: "trace", pure: true, imports: []string{"graph", "machine"},
		why: "a trace is read back without the engine that wrote it"},
	{pkg: "internal/engine", pure: true, imports: []string{"fault", "graph", "machine", "sched", "trace", "internal/text"},
		why: "the engine is driven by its loops and must not know which one"},
	{pkg: "experimental/sim", pure: true, imports: []string{"graph", "machine", "sched", "trace", "experimental/driver", "internal/engine", "internal/text", "internal/verify"},
		why: "the simulator replaces devices and clock, so it must not reach the real ones; of the contract it knows the board"},
	{pkg: "cmd/weft/internal/plan", pure: true, imports: []string{"graph", "machine", "sched", "experimental/sim", "internal/cut", "internal/engine", "internal/text"},
		why: "what a machine would take and cost is computed from descriptions, so that it can be asked of machines nobody has"},
	{pkg: "internal/test/bytevm", pure: true, imports: []string{"graph", "machine", "sched", "experimental/driver", "internal/engine"},
		why: "the second oracle shares no line with the first, or both would overlook the same"},
	{pkg: "internal/test/pace",
		why: "what code is measured beside must not change with it"},
	{pkg: "internal/test/poll",
		why: "tests wait the same for whatever must come"},
	{pkg: "task/internal/gate", pure: true,
		why: "when a Go function may start is decided by events alone, so that every order of them can be tried"},
	{pkg: "task/internal/pool", imports: []string{"fault", "task/internal/gate"},
		why: "goroutines that call functions know nothing of devices"},
	{pkg: "task", imports: []string{"fault", "task/internal/gate", "task/internal/pool"},
		why: "a program of Go functions alone is static and small, so that nothing about devices, graphs or files may be in it"},
	{pkg: "internal/numa",
		why: "which memory nodes there are is the same for whoever asks"},
	{pkg: "internal/futex",
		why: "a system call knows nothing of what is waited for"},
	{pkg: "internal/memcopy",
		why: "memory is copied the same whoever it belongs to"},
	{pkg: "internal/extent",
		why: "ranges are divided the same whatever lies in them"},
	{pkg: "experimental/driver", imports: []string{"graph", "machine", "internal/futex"},
		why: "the contract knows what is run and described, not who decides"},
	{pkg: "internal/safefile",
		why: "who may have written a file does not depend on what is in it"},
	{pkg: "internal/monitor", imports: []string{"internal/safefile"}, modules: []string{"golang.org/x/sys"},
		why: "what is shown of a runtime is text and figures; it reaches no runtime itself"},
	{pkg: "internal/tools/results",
		why: "the record of figures is text and drawings; it measures nothing"},
	{pkg: "internal/tools/sbom",
		why: "what a program was built from is in the program itself"},
	{pkg: "internal/tools/plant",
		why: "who judges the checks of workloads must not depend on them"},
	{pkg: "internal/tools/house",
		why: "who judges the tree reads it as text"},
	{pkg: "internal/tools/modproxy", modules: []string{"golang.org/x/mod"},
		why: "modules are written as they are, whatever is in them"},
	{pkg: "internal/tools/mutate",
		why: "who judges the tests of a package must not depend on it"},
	{pkg: "internal/probe", imports: []string{"graph"},
		why: "what measures a device is a list of kernels, which any backend may read"},
	{pkg: "internal/backend/*", imports: []string{"fault", "graph", "machine", "trace", "experimental/driver", "internal/extent", "internal/memcopy", "internal/numa", "internal/probe", "internal/safefile"}, modules: []string{"github.com/ebitengine/purego", "golang.org/x/sys"},
		why: "a backend obeys the contract and knows nothing above it"},
	{pkg: "internal/backend/backendtest", imports: []string{"graph", "machine", "experimental/driver"}, modules: []string{"go.uber.org/goleak"},
		why: "the suite speaks the contract, so that it holds for any backend"},
	{pkg: "internal/backend/cuda/cudatest",
		why: "the stand-in for NVIDIA's libraries must not depend on what is tested with it"},
	{pkg: "internal/backend/all", imports: []string{"experimental/driver", "internal/backend/*", "internal/arena", "machine"},
		why: "the list of drivers names backends and does nothing with them"},
	{pkg: "internal/arena", imports: []string{"experimental/driver", "internal/extent", "internal/numa"}, modules: []string{"golang.org/x/sys"},
		why: "shared memory is handed out without knowing who computes in it"},
	{pkg: "internal/backend/proc", imports: []string{"fault", "graph", "machine", "experimental/driver", "trace", "internal/arena", "internal/extent", "internal/futex", "internal/memcopy", "internal/numa"}, modules: []string{"golang.org/x/sys"},
		why: "any driver runs in a child by its contract, so this must not know one"},
	{pkg: "internal/exec", imports: []string{"graph", "machine", "trace", "experimental/driver", "internal/engine", "internal/probe", "internal/safefile"},
		why: "the live loop sees devices through the contract, so that any backend will do"},
	{pkg: "internal/checkpoint", pure: true,
		why: "the order in which a checkpoint is written is tried on folders that crash, so it must not know a real one"},
	{pkg: "internal/checkpoint/disk", imports: []string{"internal/checkpoint", "internal/safefile"},
		why: "a folder is written the same whatever is in its files"},
	{pkg: "internal/stage", pure: true, imports: []string{"graph"},
		why: "where a graph can be cut follows from the graph alone"},
	{pkg: "internal/verify", pure: true, imports: []string{"graph", "machine"},
		why: "which device is wrong is decided by what was compared alone, so that sim tries the same decisions"},
	{pkg: "internal/cut", pure: true, imports: []string{"graph", "machine", "sched", "experimental/sim", "internal/engine"},
		why: "how work is cut follows from a copy of what is known, so that it can be decided without devices"},
	{pkg: "internal/ports", pure: true, imports: []string{"graph", "sched"},
		why: "what belongs to a range follows from its items, whoever runs it"},
	{pkg: ".", imports: []string{"*"},
		why: "the root is the face of the library and brings its users no third-party module"},
	{pkg: "internal/signature", imports: []string{"graph", "experimental/driver"},
		why: "what a kernel takes is checked at the call, whoever made the graph and whatever the device"},
	{pkg: "collective", imports: []string{".", "graph", "machine", "internal/signature", "internal/text"}, modules: []string{"golang.org/x/sys"},
		why: "an operation is a graph, which meets the runtime through its public face only"},
	{pkg: "experimental/replica", imports: []string{".", "graph", "machine", "collective"},
		why: "merging replicas is a graph that the runtime runs; what updates them is the caller's"},
	{pkg: "experimental/pipeline", imports: []string{".", "fault", "graph", "machine", "trace", "internal/text"},
		why: "a stream meets devices through the runtime, which decides where and when"},
	{pkg: "model", imports: []string{".", "graph", "internal/safefile", "internal/text"},
		why: "a model is run through the public face of the runtime, by its files alone: it must not know a workload or a backend"},
	{pkg: "serve/dashboard", imports: []string{".", "machine", "trace"},
		why: "the page shows what the public face of the runtime tells; models and jobs are told to it, so that it knows no server"},
	{pkg: "workload", imports: []string{".", "graph", "machine", "sched", "internal/ports"},
		why: "what workloads have in common is how they meet the runtime"},
	{pkg: "serve/internal/batch", pure: true,
		why: "which requests are computed together is decided by events alone, so that every order of them can be tried"},
	{pkg: "serve/internal/infer", imports: []string{".", "graph", "machine", "model", "serve/internal/batch", "internal/safefile", "internal/text", "workload/reservoir"}, modules: []string{"go.yaml.in/yaml/v3"},
		why: "what is served does not depend on who asks for it, nor by which protocol"},
	{pkg: "internal/workloadtest", imports: []string{".", "experimental/driver", "graph", "machine", "sched", "workload", "internal/backend/*"}, modules: []string{"golang.org/x/sys"},
		why: "what holds for every workload must not know any of them"},
	{pkg: "internal/philox",
		why: "random numbers are a function of an index and of nothing else"},
	{pkg: "internal/rounding",
		why: "what rounding may do to a sum depends on its terms and on nothing else"},
	{pkg: "internal/simd", modules: []string{"golang.org/x/sys"},
		why: "which kernels a processor runs depends on the processor alone"},
	{pkg: "internal/panel", modules: []string{"golang.org/x/sys"},
		why: "an inner loop knows numbers, not tasks"},
	{pkg: "internal/product", imports: []string{".", "graph", "machine", "sched", "workload", "internal/arena", "internal/panel", "internal/philox", "internal/signature"}, why: portable},
	{pkg: "workload/*", imports: []string{".", "graph", "machine", "sched", "task", "workload", "collective", "experimental/replica", "experimental/pipeline", "internal/panel", "internal/philox", "internal/product", "internal/rounding", "internal/safefile", "internal/signature", "internal/simd", "internal/text"}, modules: []string{"golang.org/x/sys"},
		why: portable},
	{pkg: "workload/fusion", imports: []string{".", "graph", "machine", "sched", "workload", "workload/clifford", "experimental/pipeline", "internal/philox", "internal/rounding", "internal/signature"},
		why: "records have multivectors, whose product is that of geometric algebra"},
	{pkg: "workload/reservoir", imports: []string{".", "graph", "machine", "sched", "workload", "workload/gemm", "collective", "experimental/replica", "internal/philox", "internal/rounding", "internal/signature"}, modules: []string{"golang.org/x/sys"},
		why: "training is products of matrices, which gemm has for every device"},
	{pkg: "workload/zk", imports: []string{".", "graph", "machine", "sched", "workload", "workload/zk/msm", "workload/zk/ntt", "internal/safefile", "internal/signature", "internal/text"}, modules: []string{"github.com/consensys/gnark", "github.com/consensys/gnark-crypto"},
		why: "circuits, keys and proofs are gnark's, which nothing else brings into a program"},
	{pkg: "workload/landscape", imports: []string{".", "graph", "machine", "sched", "workload", "workload/protein", "internal/philox", "internal/signature", "internal/simd"},
		why: "the energy is that of a protein's model, which other workloads share"},
	{pkg: "workload/protein", imports: []string{"internal/safefile"},
		why: "a structure and its potential are what they are whatever computes with them"},
	{pkg: "workload/protein/*", imports: []string{".", "graph", "machine", "sched", "workload", "workload/protein", "collective", "internal/host", "internal/philox", "internal/rounding", "internal/safefile", "internal/signature", "internal/simd"},
		why: "what is computed of a structure meets the runtime as any workload does"},
	{pkg: "internal/protein/network", imports: []string{"workload", "workload/protein", "internal/philox"},
		why: "the matrices of a network and their modes are computed from coordinates alone"},
	{pkg: "internal/protein/partition", imports: []string{"sched", "internal/protein/network"},
		why: "parts of a protein are found from its network alone, before anything runs"},
	{pkg: "workload/protein/elastic", imports: []string{".", "graph", "machine", "sched", "workload", "workload/protein", "internal/protein/network", "internal/host", "internal/signature", "internal/simd"},
		why: portable},
	{pkg: "workload/zk/ntt", imports: []string{".", "graph", "sched", "workload", "internal/philox", "internal/signature"}, modules: []string{"github.com/consensys/gnark-crypto"},
		why: "the field and the roots are gnark-crypto's; the transform meets the runtime as any workload does"},
	{pkg: "workload/zk/field",
		why: "arithmetic for GPUs is made from two primes and nothing else"},
	{pkg: "workload/zk/msm", imports: []string{".", "graph", "machine", "sched", "workload", "internal/philox", "internal/signature"}, modules: []string{"github.com/consensys/gnark-crypto"},
		why: "points are added up wherever devices are; the curve is gnark-crypto's"},
	{pkg: "bench/domains", imports: []string{".", "workload", "workload/*"},
		why: "what other programs are compared with is computed through the public calls"},
	{pkg: "examples/*", imports: []string{".", "graph", "task"},
		why: "an example shows what a program outside needs, which is the public face"},
	{pkg: "cmd/weft/internal/pages",
		why: "what pages look like does not depend on what is on them"},
	{pkg: "cmd/weft/internal/terminal", imports: []string{"graph", "machine", "internal/text"}, modules: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys"},
		why: "how a command shows figures does not depend on who computed them"},
	{pkg: "serve/internal/otlp", imports: []string{"serve/internal/infer"},
		why: "a trace is of predictions as they are computed, whoever asks for them"},
	{pkg: "serve/internal/metrics", imports: []string{".", "serve/internal/infer"},
		why: "figures are derived from what a runtime and a service tell; they change neither"},
	{pkg: "serve/load", imports: []string{"serve/internal/oip", "internal/text"}, modules: []string{"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc"},
		why: "a server is measured by its protocol alone: the same requests must do for any other server"},
	{pkg: "serve/simulate", imports: []string{"graph", "machine", "experimental/sim", "serve/internal/batch", "serve/internal/infer", "serve", "serve/load", "workload/reservoir"},
		why: "the server's own decisions run on a machine that is only described, so nothing here may open devices"},
	{pkg: "internal/host", imports: []string{"internal/text"},
		why: "limits of the machine hold for any work"},
	{pkg: "internal/catalog", imports: []string{".", "machine", "collective", "experimental/replica", "workload", "workload/*", "workload/protein/*", "internal/product", "internal/host", "internal/text"},
		why: "the list of workloads names them, as internal/backend/all names backends, without running any; a server needs it, so that it brings in no module"},
	{pkg: "cmd/weft/internal/workloads", imports: []string{".", "workload", "workload/zk", "workload/zk/*", "internal/catalog", "serve", "internal/signature", "internal/text", "cmd/weft/internal/terminal"}, modules: []string{"github.com/spf13/pflag"},
		why: "workloads that need a module join the list here, where flags become those of commands"},
	{pkg: "cmd/weft/internal/learn", imports: []string{".", "workload/reservoir", "internal/philox"},
		why: "a task is data and a score; how it is shown or saved is the command's"},
	{pkg: "cmd/weft/internal/chaos", imports: []string{".", "experimental/driver", "graph", "machine", "sched", "experimental/sim", "workload", "internal/arena", "internal/backend/*"},
		why: "faults come from outside: what is struck is run through the public face of the runtime, in processes"},
	{pkg: "cmd/weft/internal/chaos/siege", imports: []string{".", "api", "cmd/weft/internal/chaos", "serve/load", "serve"},
		why: "a service is struck as it is served, and asked as anybody would ask it"},
	{pkg: "cmd/weft/internal/bench", imports: []string{".", "graph", "machine", "sched", "experimental/sim", "trace", "experimental/driver", "experimental/pipeline", "experimental/replica", "collective", "internal/backend/all", "internal/backend/fake", "workload", "workload/automata", "workload/protein/fold", "workload/reservoir", "workload/tropical", "workload/zk", "workload/zk/msm", "workload/zk/ntt", "internal/arena", "cmd/weft/internal/workloads", "internal/catalog", "cmd/weft/internal/chaos", "internal/host", "serve/load", "internal/probe", "internal/safefile", "serve", "serve/simulate", "cmd/weft/internal/terminal", "internal/text", "cmd/weft/internal/plan", "cmd/weft/internal/pages"}, modules: []string{"github.com/consensys/gnark", "github.com/consensys/gnark-crypto", "github.com/spf13/cobra", "github.com/spf13/pflag"},
		why: "benchmarks measure weft from outside or a device alone, so they must not reach into the engine"},
	{pkg: "api",
		why: "a program that asks a server for predictions needs none of the runtime"},
	{pkg: "serve/internal/oip", modules: []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		why: "messages are made from a description and know neither server nor client"},
	{pkg: "cmd/weft/internal/prove", imports: []string{".", "api", "serve", "workload/zk"}, modules: []string{"github.com/consensys/gnark"},
		why: "what is proved, and in which order, does not depend on who asks over which protocol"},
	{pkg: "serve", imports: []string{".", "api", "graph", "workload", "internal/catalog", "internal/checkpoint", "internal/checkpoint/disk", "serve/dashboard", "serve/internal/infer", "serve/internal/metrics", "serve/internal/oip", "serve/internal/otlp", "internal/safefile", "internal/text"}, modules: []string{"github.com/spf13/pflag", "go.yaml.in/yaml/v3", "google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc"},
		why: "a program embeds the server as a whole; what needs a command, or cryptography, is given to it"},
	{pkg: "internal/tools/weftparams",
		why: "declarations are made from the text of Go files, which any program may have"},
	{pkg: "cmd/weft", imports: []string{"*"}, modules: []string{"github.com/consensys/gnark", "github.com/spf13/cobra", "github.com/spf13/pflag"},
		why: "every module in go.mod is justified in docs/RATIONALE.md"},
}

// impure are imports a pure package must not have, with everything below them.
var impure = map[string]string{
	"os":          "a pure package reads no files, environment or processes: pass what it needs",
	"net":         "a pure package talks to nobody",
	"sync":        "a pure package has one owner and needs no locks; if it does, it is not pure",
	"context":     "a pure package neither blocks nor is cancelled",
	"log":         "a pure package returns what happened; its loop logs it",
	"crypto/rand": "randomness comes from a seed, or a run cannot be repeated",
}

// clock are the functions of package time that read a clock or wait for one.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// seeded are the names of math/rand and math/rand/v2 that do not use the
// process-wide generator.
var seeded = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}

func TestLayering(t *testing.T) {
	rooms := make(map[string]room)
	for _, r := range house {
		if found, err := filepath.Glob(r.pkg); err != nil || len(found) == 0 {
			t.Errorf("%s is listed in layering_test.go and does not exist: remove its row", r.pkg)
		}
		rooms[r.pkg] = r
	}
	missing := make(map[string]bool)
	// Tests may import what they like: nothing imports them.
	sources(t, func(file string, src []byte) {
		pkg := path.Dir(file)
		r, ok := rooms[pkg]
		if !ok {
			r, ok = rooms[path.Join(path.Dir(pkg), "*")]
			r.pkg = pkg
		}
		if !ok && !missing[pkg] {
			t.Errorf("%s is in no row of layering_test.go: add it with what it may import and why", pkg)
			missing[pkg] = true
		}
		if !ok {
			return
		}
		for _, v := range r.violations(file, src) {
			t.Error(v)
		}
	})
}

// Nothing but proofs brings in gnark-crypto: no package of the root's module, nor the server.
func TestDependencies(t *testing.T) {
	for pkg, has := range map[string]bool{"./...": false, "./serve/...": false, "./workload/zk/ntt": true} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
		if got := strings.Contains(string(out), "github.com/consensys/"); got != has {
			t.Errorf("%s depends on gnark-crypto: %v, want %v", pkg, got, has)
		}
	}
}

// A program that imports the root, and no workload, has no third-party module but those of
// backends: gnark above all is not part of it. Nor has one that imports the list of workloads, as a server does.
func TestRootAlone(t *testing.T) {
	for _, pkg := range []string{".", "./internal/catalog"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		found := slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
		if want := []string{"github.com/ebitengine/purego", module, "golang.org/x/sys"}; !slices.Equal(found, want) {
			t.Errorf("%s brings in %v, want %v", pkg, found, want)
		}
	}
}

// workspace returns the folders of the modules that go.work uses.
func workspace(t *testing.T) (folders []string) {
	t.Helper()
	text, err := os.ReadFile("go.work")
	if err != nil {
		t.Fatal(err)
	}
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, use := range work.Use {
		folders = append(folders, path.Clean(use.Path))
	}
	return folders
}

// sources calls fn with every file of the workspace that is no test.
func sources(t *testing.T, fn func(file string, src []byte)) {
	t.Helper()
	modules := workspace(t)
	seen := 0
	err := filepath.WalkDir(".", func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() {
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			other := err == nil && !slices.Contains(modules, filepath.ToSlash(file)) // a module that go.work does not use
			if file != "." && (name == "testdata" || name[0] == '.' || name[0] == '_' || other) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		seen++
		fn(filepath.ToSlash(file), src)
		return nil
	})
	if err != nil || seen == 0 {
		t.Fatalf("%d files: %v", seen, err)
	}
}

// violations returns what a file does that its package must not.
func (r room) violations(file string, src []byte) (found []string) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, src, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	report := func(at ast.Node, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: %s", files.Position(at.Pos()), fmt.Sprintf(format, args...)))
	}
	local := make(map[string]string) // the name a file gives to time and math/rand
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return []string{err.Error()}
		}
		inner, own := strings.CutPrefix(imported, module+"/")
		first, _, _ := strings.Cut(imported, "/")
		switch {
		case own || imported == module:
			if !own {
				inner = "."
			}
			if !slices.ContainsFunc(r.imports, func(may string) bool { return may == "*" || matches(may, inner) }) {
				report(spec, "%s must not import %s: %s", r.pkg, inner, r.why)
			}
		case strings.Contains(first, "."): // not the standard library
			if !slices.ContainsFunc(r.modules, func(m string) bool { return within(imported, m) }) {
				report(spec, "%s must not import %s: %s", r.pkg, imported, r.why)
			}
		case r.pure:
			for bad, why := range impure {
				if within(imported, bad) {
					report(spec, "%s must not import %s: %s", r.pkg, imported, why)
				}
			}
		}
		switch imported {
		case "time", "math/rand", "math/rand/v2":
			name := path.Base(strings.TrimSuffix(imported, "/v2"))
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if r.pure && name == "." {
				report(spec, "%s must not dot-import %s: its uses could not be checked", r.pkg, imported)
			}
			local[name] = imported
		}
	}
	if !r.pure {
		return found
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch name := sel.Sel.Name; local[id.Name] {
		case "time":
			if slices.Contains(clock, name) {
				report(sel, "%s must not use time.%s: a pure package is given the time (or rename the variable that hides the package)", r.pkg, name)
			}
		case "math/rand", "math/rand/v2":
			if !slices.Contains(seeded, name) {
				report(sel, "%s must not use rand.%s: randomness comes from a seed, or a run cannot be repeated (or rename the variable that hides the package)", r.pkg, name)
			}
		}
		return true
	})
	return found
}

// matches reports whether a package is one that a pattern stands for.
func matches(pattern, pkg string) bool {
	ok, err := path.Match(pattern, pkg)
	return err == nil && ok
}

// within reports whether a path is that of a package or of one below it.
func within(path, pkg string) bool { return path == pkg || strings.HasPrefix(path, pkg+"/") }

// The check itself must be able to fail.
func TestLayeringCatches(t *testing.T) {
	pure := room{pkg: "p", imports: []string{"graph"}, pure: true, why: "because"}
	below := room{pkg: "p", imports: []string{"workload/*"}, why: "because"}
	anything := room{pkg: "p", imports: []string{"*"}, modules: []string{"example.org/mod"}, why: "because"}
	cases := []struct {
		room room
		src  string
		want string // the finding without its reason, "" for none
	}{
		{pure, `import "fmt"`, ""},
		{pure, `import "` + module + `/graph"`, ""},
		{pure, `import "` + module + `/sim"`, "p must not import sim: because"},
		{pure, `import "` + module + `"`, "p must not import .: because"},
		{pure, `import "` + module + `/graph/inner"`, "p must not import graph/inner: because"},
		{pure, `import "example.org/mod"`, "p must not import example.org/mod: because"},
		{pure, `import "os"`, "p must not import os: " + impure["os"]},
		{pure, `import "os/exec"`, "p must not import os/exec: " + impure["os"]},
		{pure, `import "net/http"`, "p must not import net/http: " + impure["net"]},
		{pure, `import _ "sync/atomic"`, "p must not import sync/atomic: " + impure["sync"]},
		{pure, `import "context"`, "p must not import context: " + impure["context"]},
		{pure, `import "log/slog"`, "p must not import log/slog: " + impure["log"]},
		{pure, `import "time"; const d = time.Second`, ""},
		{pure, `import "time"; var t = time.Now()`, "p must not use time.Now"},
		{pure, `import "time"; var f = time.Since`, "p must not use time.Since"},
		{pure, `import c "time"; func f() { c.Sleep(1) }`, "p must not use time.Sleep"},
		{pure, `import . "time"`, "p must not dot-import time"},
		{pure, `import "math/rand/v2"; var r = rand.New(rand.NewPCG(1, 2)); var x = r.IntN(3)`, ""},
		{pure, `import "math/rand/v2"; var x = rand.IntN(3)`, "p must not use rand.IntN"},
		{pure, `import "math/rand"; var x = rand.Perm(3)`, "p must not use rand.Perm"},
		{below, `import "` + module + `/workload/gemm"`, ""},
		{below, `import "` + module + `/workload"`, "p must not import workload: because"},
		{below, `import "` + module + `/workload/gemm/inner"`, "p must not import workload/gemm/inner: because"},
		{anything, `import ("os"; "time"; "` + module + `/sim"; "example.org/mod/sub"); var t = time.Now()`, ""},
		{anything, `import "example.org/module"`, "p must not import example.org/module: because"},
	}
	for _, c := range cases {
		found := c.room.violations("p/f.go", []byte("package p\n"+c.src))
		switch {
		case c.want == "" && len(found) > 0, len(found) > 1:
			t.Errorf("%s: found %q", c.src, found)
		case c.want != "" && (len(found) == 0 || !strings.Contains(found[0], ": "+c.want)):
			t.Errorf("%s: found %q, want %q", c.src, found, c.want)
		}
	}
}
