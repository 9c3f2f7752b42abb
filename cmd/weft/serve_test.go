package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/cmd/weft/internal/workloads"
)

// serveLines starts weft serve in a process of its own and returns it with its output.
func serveLines(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0], append([]string{"serve", "--devices", "cpu"}, args...)...)
	c.Env = append(os.Environ(), "WEFT_TEST_MAIN=1")
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Kill() // it failed before it was ended
			_ = c.Wait()
		}
	})
	return c, bufio.NewScanner(out)
}

var listening = regexp.MustCompile(`^Listening on (\S+), to serve`)

// It says where it listens, answers predictions of the reservoir it makes, loads it anew on
// SIGHUP, and ends well on SIGTERM.
func TestServe(t *testing.T) {
	c, lines := serveLines(t, "--listen", "127.0.0.1:0", "--profile", "analytics")
	address, ready, noted := "", false, false
	for !ready && lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
		noted = noted || strings.Contains(lines.Text(), "made for 8 devices and this server has 1")
		ready = lines.Text() == "Ready:"
	}
	if address == "" || !ready || !noted {
		t.Fatalf("it listens on %q, ready %v, said what it lacks %v", address, ready, noted)
	}
	go func() {
		for lines.Scan() { // so that it is not held up by its output
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	infer := func() error {
		// The profile's own deadline is short for a machine that tests run on.
		r, err := client.Infer(ctx, &api.InferRequest{Model: "reservoir", Timeout: time.Minute, Inputs: []api.Tensor{api.NewTensor("input", make([]float32, 20*64), 1, 20, 64)}})
		if err == nil && len(r.Outputs) != 1 {
			err = fmt.Errorf("%d outputs", len(r.Outputs))
		}
		return err
	}
	if err := infer(); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := infer(); err != nil { // while it loads
		t.Error(err)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if _, err := http.Get(address + "/healthz"); err == nil {
		t.Error("it still answers")
	}
}

// A server runs jobs of every workload of the command, those of proofs too, and refuses what these refuse.
func TestServeWorkloads(t *testing.T) {
	c, lines := serveLines(t, "--listen", "127.0.0.1:0")
	address := ""
	for address == "" && lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	go func() {
		for lines.Scan() { // so that it is not held up by its output
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	answer, err := http.Get(address + "/v1/workloads")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var listed struct {
		Workloads []struct {
			Name       string
			Parameters []struct{ Name, Type, Usage string }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&listed); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, w := range listed.Workloads {
		names = append(names, w.Name)
		file := ""
		if of, ok := workloads.Find(w.Name); ok {
			file, _ = of.File()
		}
		for _, p := range w.Parameters {
			for _, word := range []string{"file", "path", "format", "folder"} {
				if p.Type == "string" && strings.Contains(strings.ToLower(p.Name+" "+p.Usage), word) && p.Name != file && w.Name != "fold" {
					t.Errorf("%s --%s: %s: does it name a file of the server?", w.Name, p.Name, p.Usage)
				}
			}
		}
	}
	want := append(workloads.Names(), "fold")
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("it has %v, want %v", names, want)
	}
	client, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, c := range []struct {
		workload, name string
		value          any
		want           string // in the error; none if the job runs
	}{
		{"zk", "circuit", "sudoku", "sudoku"},
		{"zk", "constraints", 16777217, "there must be 1 to 16777216"},
		{"ntt", "size", "2^x", "parameter size: \"2^x\" is not of type number"},
		{"msm", "size", "3^2", "parameter size: \"3^2\" is not of type int"},
		{"msm", "seed", -1, "parameter seed: \"-1\" is not of type uint64"},
		{"msn", "size", 1, "unknown workload \"msn\"; did you mean msm?"},
		{"ntt", "size", "2^6", ""},
		{"msm", "size", "2^7", ""},
		{"zk", "constraints", 300, ""},
	} {
		j, err := client.Submit(ctx, api.JobRequest{Workload: c.workload, Parameters: map[string]any{c.name: c.value}})
		if c.want != "" {
			refused := (*api.Error)(nil)
			if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range client.Watch(ctx, j.ID) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if r, err := client.Result(ctx, j.ID); err != nil || !r.Checked {
			t.Errorf("%+v: %+v, %v", c, r, err)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

// Models that do not load are told of once all were tried, whatever the reason says.
func TestServeNotReady(t *testing.T) {
	models := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(models, name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(models, name, "model.yaml"), []byte("kind: graph\nfile: load.json\n"), 0o666); err != nil { // which is not there
			t.Fatal(err)
		}
	}
	c, lines := serveLines(t, "--listen", "127.0.0.1:0", "--models", models)
	defer time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() }).Stop() // so that its output ends
	var told []string
	for len(told) < 3 && lines.Scan() {
		if s := lines.Text(); len(told) > 0 || strings.HasPrefix(s, "Not ready: ") {
			told = append(told, s)
		}
	}
	if len(told) < 3 || !strings.Contains(told[0], "load.json") || !strings.Contains(told[1], "a version 1: failed") || !strings.Contains(told[2], "b version 1: failed") {
		t.Errorf("%q", told)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}

func TestServeCheckConfig(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file("tokens", "ann 0123456789abcdef\n")
	good := file("good.yaml", "profile: analytics\ntokens: tokens\n")
	if out := works(t, "serve", "--check-config", "--config", good); out != "The configuration is good.\n" {
		t.Errorf("%q", out)
	}
	works(t, "serve", "--check-config")
	models := filepath.Join(dir, "broken")
	if err := os.MkdirAll(filepath.Join(models, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	file("broken/a/model.yaml", "kind: graph\nfile: gone.json\n")
	works(t, "serve", "--check-config", "--devices", "cpu", "--state", filepath.Join(dir, "jobs", "here"))
	if _, err := os.Stat(filepath.Join(dir, "jobs")); err == nil {
		t.Error("the folder of jobs was made")
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", file("a.yaml", "listen: 127.0.0.1:1\n\nlimit: {}\n")}, `a.yaml: line 3: unknown key "limit"; did you mean limits?`},
		{[]string{"--config", file("b.yaml", "tokens: none\n")}, "none"},
		{[]string{"--config", filepath.Join(dir, "absent.yaml")}, "absent.yaml"},
		{[]string{"--listen", "0.0.0.0:80"}, "needs tls"},
		{[]string{"--profile", "fast"}, "analytics"},
		{[]string{"--devices", "abacus"}, "abacus"},
		{[]string{"--devices", "cuda:99"}, "cuda"},
		{[]string{"--models", filepath.Join(dir, "models")}, "models"},
		{[]string{"--devices", "cpu", "--models", models}, "model a: gone.json"},
		{[]string{"--state", good}, "a folder is needed"},
		{[]string{"--state", filepath.Join(good, "jobs")}, "not a directory"},
		{[]string{"--state", open}, "choose a folder that nobody else can write to"},
		{[]string{"--state", filepath.Join(open, "jobs")}, "choose a folder that nobody else can write to"},
	} {
		code, _, errs := runWeft(append([]string{"serve", "--check-config"}, c.args...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: status %d, %q", c.args, code, errs)
		}
	}
	// A folder of models that is not there, and an address that is taken.
	if code, _, errs := runWeft("serve", "--devices", "cpu", "--models", filepath.Join(dir, "models")); code != exitUsage || !strings.Contains(errs, "models") {
		t.Errorf("status %d, %q", code, errs)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if code, _, errs := runWeft("serve", "--devices", "cpu", "--listen", l.Addr().String()); code != exitUsage || !strings.Contains(errs, "in use") || strings.Count(errs, "\n") != 1 {
		t.Errorf("status %d, %q", code, errs)
	}
}

// The command lines in deploy are ones that the command takes.
func TestDeploy(t *testing.T) {
	found := 0
	for _, name := range []string{"weft.service", "Containerfile"} {
		text, err := os.ReadFile(filepath.Join("../../deploy", name))
		if err != nil {
			t.Fatal(err)
		}
		known := newServe().Flags()
		for _, flag := range regexp.MustCompile(`(?m)^(?:Exec|CMD|ENTRYPOINT).*$`).FindAllString(string(text), -1) {
			for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(flag, -1) {
				if found++; known.Lookup(m[1]) == nil {
					t.Errorf("%s: weft serve has no flag --%s", name, m[1])
				}
			}
		}
	}
	if found < 2 {
		t.Errorf("%d flags were found", found)
	}
}

// systemd does not start weft again and again after a mistake in its configuration, and does after a panic, which Go
// would end with the same status.
func TestDeployRestarts(t *testing.T) {
	text, err := os.ReadFile("../../deploy/weft.service")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"Restart=on-failure", fmt.Sprintf("RestartPreventExitStatus=%d", exitUsage), "Environment=GOTRACEBACK=crash"} {
		if !strings.Contains(string(text), "\n"+line+"\n") {
			t.Errorf("weft.service has no line %s", line)
		}
	}
	if strings.Contains(string(text), "ExecStartPre") {
		t.Error("systemd restarts after a failure of ExecStartPre whatever its status")
	}
	config := write(t, "weft.yaml", "nosuch: 1\n")
	if code, _, _ := runWeft("serve", "--config", config); code != exitUsage {
		t.Errorf("a mistake in the file ends with %d", code)
	}
}
