package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testName is how documents name a test: its folder and its function.
var testName = regexp.MustCompile("`([a-z0-9_./]+):((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9_]*)`")

// namedTests returns the tests a document names, as "folder:Test".
func namedTests(text string) (out []string) {
	for _, m := range testName.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1]+":"+m[2])
	}
	return out
}

// testsOf returns the names of tests and fuzz targets in a folder, whatever they are
// built for.
func testsOf(folder string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool)
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				out[fn.Name.Name] = true
			}
		}
	}
	return out, nil
}

// Every test that a document names exists.
func TestNamedTests(t *testing.T) {
	known := make(map[string]map[string]bool)
	for _, doc := range []string{"SECURITY.md", "docs/TESTING.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		names := namedTests(string(text))
		if len(names) == 0 {
			t.Errorf("%s names no test", doc)
		}
		for _, n := range names {
			folder, name, _ := strings.Cut(n, ":")
			if known[folder] == nil {
				if known[folder], err = testsOf(folder); err != nil {
					t.Fatal(err)
				}
			}
			if !known[folder][name] {
				t.Errorf("%s names %s, which is not there", doc, n)
			}
		}
	}
}

// treeDocs are the documents that say where things are in the tree.
var treeDocs = []string{"docs/ARCHITECTURE.md", "docs/GLOSSARY.md", "docs/RATIONALE.md"}

var (
	quoted = regexp.MustCompile("`([^`\n]+)`")
	// A path has nothing but these characters. It has a slash, or it ends as files of the tree do.
	pathText = regexp.MustCompile(`^\.?[A-Za-z0-9_*-][A-Za-z0-9_.*/-]*$`)
	fileName = regexp.MustCompile(`\.(c|comp|cu|cuh|csv|glsl|go|golden|h|html|json|md|mod|proto|ptx|py|s|service|sh|spv|svg|txt|work|yaml)$`)
	// Other things with a slash: devices ("cpu/2", "cpu/N"), and what is named by an Internet domain.
	notPath = regexp.MustCompile(`^[a-z]+/([0-9]+|N)$|^[a-z0-9-]+(\.[a-z0-9-]+)+/`)
)

// namedPaths returns the files and folders that a document names in backquotes, relative to the
// root. Absolute paths are the system's.
func namedPaths(text string) (out []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		name := m[1]
		if !pathText.MatchString(name) || notPath.MatchString(name) || !strings.Contains(name, "/") && !fileName.MatchString(name) {
			continue
		}
		out = append(out, strings.TrimSuffix(strings.TrimSuffix(name, "/..."), "/"))
	}
	return out
}

// missingPaths returns those of a document's paths that are not in the tree. A path may be a pattern.
func missingPaths(text string) (out []string) {
	for _, name := range namedPaths(text) {
		if found, err := filepath.Glob(name); (err != nil || len(found) == 0) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// Every file and folder that a document on the source names exists, and so does every test.
func TestNamedPaths(t *testing.T) {
	for _, doc := range treeDocs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		if len(namedPaths(string(text))) == 0 {
			t.Errorf("%s names no path", doc)
		}
		for _, name := range missingPaths(string(text)) {
			t.Errorf("%s names %s, which is not in the tree", doc, name)
		}
		for _, n := range namedTests(string(text)) {
			folder, name, _ := strings.Cut(n, ":")
			if found, err := testsOf(folder); err != nil || !found[name] {
				t.Errorf("%s names %s, which is not there", doc, n)
			}
		}
	}
}

// The check itself must be able to fail.
func TestNamedPathsCatches(t *testing.T) {
	for text, want := range map[string][]string{
		"see `graph/flow.go` and `graph`":                          nil,
		"see `graph/nowhere.go`":                                   {"graph/nowhere.go"},
		"twice `nowhere.md` and `nowhere.md`":                      {"nowhere.md"},
		"in `nowhere/` and `internal/nowhere`":                     {"nowhere", "internal/nowhere"},
		"all of `internal/...` and `nowhere/...`":                  {"nowhere"},
		"each of `sched/partition_*.go` and `sched/nowhere_*.go`":  {"sched/nowhere_*.go"},
		"a hidden folder: `.ci/run`, `.nowhere/run`":               {".nowhere/run"},
		"code: `weft.Go`, `a / b`, `key = value`, `Engine.Step()`": nil,
		"others: `cpu/2`, `cpu/N`, `/dev/shm/x`, `golang.org/x/y`": nil,
		"a slot is no path: `workload/<name>`, nor is 1/2 or a/b":  nil,
	} {
		if got := missingPaths(text); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Every line of SECURITY.md that says what somebody cannot do names a test.
func TestSecurityLines(t *testing.T) {
	text, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, item := range strings.Split(string(text), "\n- ")[1:] {
		item, _, _ = strings.Cut(item, "\n\n")
		if strings.HasPrefix(item, "Cannot ") {
			lines++
			if len(namedTests(item)) == 0 {
				t.Errorf("no test: %s", item)
			}
		}
	}
	if lines == 0 {
		t.Error("SECURITY.md has no line that begins with Cannot")
	}
}

// talkers are the packages that may import package net, with the names they may use of
// it: none that listens, dials or looks anything up, but for sockets in the file system.
var talkers = map[string][]string{
	"internal/backend/proc": {"ErrClosed", "FileConn", "UnixConn"},                                           // a socket pair that it made itself
	"internal/monitor":      {"ErrClosed", "UnixConn", "UnixListener", "UnixAddr", "ListenUnix", "DialUnix"}, // see Options.Socket
}

// networked are the packages that are there for the network, with what they do on it. No
// program has them do so without being asked to.
var networked = map[string]string{
	"api":                    "connects to the server that a program names",
	"serve/internal/oip":     "calls by a connection that it is given",
	"serve":                  "listens where a configuration says",
	"serve/load":             "connects to the server that it is given",
	"serve/internal/otlp":    "connects to the collector that a configuration names",
	"serve/internal/metrics": "writes the answer to a request that a server hands it",
}

// handlers are the packages that may import net/http, with the names they must not use of it:
// they answer requests, and neither listen nor ask others.
var handlers = map[string][]string{
	"serve/dashboard": {"ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS", "Server", "Get", "Head", "Post", "PostForm", "Client", "DefaultClient", "Transport", "DefaultTransport", "NewRequest", "NewRequestWithContext"},
}

// sockets are the functions of golang.org/x/sys/unix and syscall that reach others. A
// pair of sockets reaches nobody.
var sockets = []string{"Socket", "Bind", "Listen", "Accept", "Accept4", "Connect"}

// network returns what a file does to reach the network.
func network(pkg, file string, src []byte) (found []string, err error) {
	if networked[pkg] != "" {
		return nil, nil
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	local := make(map[string]string) // imports by the name the file gives them
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		name := imported[strings.LastIndex(imported, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		local[name] = imported
		_, may := talkers[pkg]
		_, answers := handlers[pkg]
		switch {
		case imported == "net/http" && answers && name != ".":
		case within(imported, "net") && (imported != "net" || !may || name == "."), within(imported, "google.golang.org/grpc"):
			found = append(found, fmt.Sprintf("%s imports %s", files.Position(spec.Pos()), imported))
		case (imported == "syscall" || strings.HasSuffix(imported, "x/sys/unix")) && name == ".":
			found = append(found, fmt.Sprintf("%s dot-imports %s", files.Position(spec.Pos()), imported))
		}
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
		switch from := local[id.Name]; {
		case from == "net" && !slices.Contains(talkers[pkg], sel.Sel.Name),
			from == "net/http" && slices.Contains(handlers[pkg], sel.Sel.Name),
			(from == "syscall" || strings.HasSuffix(from, "x/sys/unix")) && slices.Contains(sockets, sel.Sel.Name):
			found = append(found, fmt.Sprintf("%s uses %s.%s", files.Position(sel.Pos()), id.Name, sel.Sel.Name))
		}
		return true
	})
	return found, nil
}

// weft listens nowhere and connects to nobody unless it is asked to: no package has the means but
// those that are networked.
func TestNoNetwork(t *testing.T) {
	sources(t, func(file string, src []byte) {
		found, err := network(path.Dir(file), file, src)
		if err != nil {
			t.Error(err)
		}
		for _, f := range found {
			t.Error(f)
		}
	})
}

// The check itself must be able to fail.
func TestNoNetworkCatches(t *testing.T) {
	for src, want := range map[string]int{
		`import "fmt"`:                                0,
		`import "net/http"`:                           1,
		`import _ "net"`:                              1,
		`import "netip"`:                              0,
		`import "net/url"`:                            1,
		`import n "net/netip"`:                        1,
		`import "google.golang.org/grpc"`:             1,
		`import "google.golang.org/grpc/credentials"`: 1,
		`import "golang.org/x/sys/unix"; var _ = unix.Socketpair`: 0,
		`import "golang.org/x/sys/unix"; var _ = unix.Socket`:     1,
		`import "syscall"; func f() { syscall.Connect(0, nil) }`:  1,
		`import s "syscall"; func f() { s.Bind(0, nil) }`:         1,
		`import . "syscall"`: 1,
	} {
		if found, err := network("graph", "f.go", []byte("package p\n"+src)); err != nil || len(found) != want {
			t.Errorf("%s: found %q, %v; want %d", src, found, err, want)
		}
	}
	for src, want := range map[string]int{
		`import "net"; var _ = net.FileConn`:      0,
		`import "net"; var _ = net.Dial`:          1,
		`import "net"; var _ = net.Listen`:        1,
		`import n "net"; var _ = n.ResolveIPAddr`: 1,
		`import "net/http"`:                       1,
	} {
		if found, err := network("internal/backend/proc", "f.go", []byte("package p\n"+src)); err != nil || len(found) != want {
			t.Errorf("internal/backend/proc: %s: found %q, %v; want %d", src, found, err, want)
		}
	}
	for src, want := range map[string]int{
		`import "net/http"; var _ http.Handler`:               0,
		`import "net/http"; var _ = http.ListenAndServe`:      1,
		`import h "net/http"; func f() { h.Get("http://x") }`: 1,
		`import . "net/http"`:                                 1,
		`import "net"`:                                        1,
		`import "net/url"`:                                    1,
	} {
		if found, err := network("serve/dashboard", "f.go", []byte("package p\n"+src)); err != nil || len(found) != want {
			t.Errorf("serve/dashboard: %s: found %q, %v; want %d", src, found, err, want)
		}
	}
	for src, want := range map[string]int{
		`import "net"; var _ = net.ListenUnix`: 0,
		`import "net"; var _ = net.Listen`:     1,
		`import "net"; var _ = net.Dial`:       1,
		`import "net"; var _ net.Dialer`:       1,
		`import "net"; var _ = net.ListenTCP`:  1,
	} {
		if found, err := network("internal/monitor", "f.go", []byte("package p\n"+src)); err != nil || len(found) != want {
			t.Errorf("internal/monitor: %s: found %q, %v; want %d", src, found, err, want)
		}
	}
}
