//go:build clients

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/weft-run/weft/api"
)

// protoFolder has KServe's published description of the protocol.
const protoFolder = "../../serve/testdata/kserve"

// client returns the path of a client by others and fails if it is not installed. Those of
// internal/tools/clients are in the folder that WEFT_CLIENTS names.
func client(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(os.Getenv("WEFT_CLIENTS"), name)
	if name == "hey" {
		path = name
	}
	found, err := exec.LookPath(path)
	if err != nil {
		t.Fatalf("%s is missing, which .ci/run clients installs: %v", name, err)
	}
	return found
}

// output runs a command, whose exit status must be as wanted, and returns what it printed.
func output(t *testing.T, status int, command string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(command, args...)
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	if ended := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	if c.ProcessState.ExitCode() != status {
		t.Fatalf("%s: status %d\n%s%s", filepath.Base(command), c.ProcessState.ExitCode(), &out, &errs)
	}
	return out.String() + errs.String()
}

// served starts a server and returns its addresses.
func served(t *testing.T, config string) (web, rpc string, end func()) {
	t.Helper()
	file := write(t, "weft.yaml", config)
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	c, lines := serveLines(t, "--listen", "127.0.0.1:0", "--config", file)
	for lines.Scan() && lines.Text() != "Ready:" {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			web = m[1]
		}
		if at, ok := strings.CutPrefix(lines.Text(), "gRPC is on grpc://"); ok {
			rpc = strings.TrimSuffix(at, ".")
		}
	}
	if web == "" || rpc == "" {
		t.Fatalf("it listens on %q and %q", web, rpc)
	}
	go func() {
		for lines.Scan() { // so that it is not held up by its output
		}
	}()
	return web, rpc, func() {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// The built-in reservoir's input: one example.
const steps, channels = 20, 64

func reservoirInput() []float32 {
	x := make([]float32, steps*channels)
	for i := range x {
		x[i] = float32(i%7) / 8
	}
	return x
}

// Clients by others get the answers that weft's own client gets, and the server's figures count
// their requests.
func TestClients(t *testing.T) {
	grpcurl, ghz, hey := client(t, "grpcurl"), client(t, "ghz"), client(t, "hey")
	web, rpc, end := served(t, "batch: {deadline: 5m}\n")
	defer end()
	const service = "inference.GRPCInferenceService"
	x := api.NewTensor("input", reservoirInput(), 1, steps, channels)
	want := predicted(t, web, x)
	sent := 1
	tensor := map[string]any{"name": "input", "datatype": "FP32", "shape": x.Shape}
	raw := textOf(t, map[string]any{"model_name": "reservoir", "id": "r", "inputs": []any{tensor}, "raw_input_contents": []string{base64.StdEncoding.EncodeToString(x.Data)}})
	tensor["contents"] = map[string]any{"fp32_contents": reservoirInput()}
	typed := textOf(t, map[string]any{"model_name": "reservoir", "id": "r", "inputs": []any{tensor}})

	t.Run("grpcurl", func(t *testing.T) {
		list := strings.Fields(output(t, 0, grpcurl, "-plaintext", rpc, "list"))
		for _, name := range []string{service, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"} {
			if !slices.Contains(list, name) {
				t.Errorf("no %s in %v", name, list)
			}
		}
		if got := output(t, 0, grpcurl, "-plaintext", rpc, "grpc.health.v1.Health/Check"); !strings.Contains(got, `"SERVING"`) {
			t.Error(got)
		}
		// By the server's own description, and by KServe's.
		for _, by := range [][]string{{"-plaintext"}, {"-plaintext", "-import-path", protoFolder, "-proto", "grpc_predict_v2.proto"}} {
			call := func(status int, method, data string) string {
				t.Helper()
				return output(t, status, grpcurl, append(slices.Clone(by), "-d", data, rpc, service+"/"+method)...)
			}
			if got := call(0, "ServerMetadata", "{}"); !strings.Contains(got, `"name": "weft"`) {
				t.Error(got)
			}
			for _, method := range []string{"ServerLive", "ServerReady"} {
				if got := call(0, method, "{}"); !strings.Contains(got, ": true") {
					t.Errorf("%s: %s", method, got)
				}
			}
			if got := call(0, "ModelReady", `{"name":"reservoir","version":"1"}`); !strings.Contains(got, `"ready": true`) {
				t.Error(got)
			}
			if got := call(0, "ModelMetadata", `{"name":"reservoir"}`); !strings.Contains(got, `"platform": "weft_reservoir"`) {
				t.Error(got)
			}
			for _, data := range []string{typed, raw} {
				if got := elements(t, call(0, "ModelInfer", data)); !slices.Equal(got, want) {
					t.Errorf("grpcurl has %v, want %v", got, want)
				}
				sent++
			}
			if got := call(64+5, "ModelInfer", strings.Replace(typed, "reservoir", "none", 1)); !strings.Contains(got, "NotFound") {
				t.Error(got)
			}
			if got := call(64+3, "ModelInfer", strings.Replace(typed, "FP32", "FP64", 1)); !strings.Contains(got, "InvalidArgument") {
				t.Error(got)
			}
		}
	})
	t.Run("ghz", func(t *testing.T) {
		const n = 200
		for _, data := range []string{typed, raw} {
			var r struct {
				Count                  int
				StatusCodeDistribution map[string]int
				ErrorDistribution      map[string]int
			}
			report := output(t, 0, ghz, "--insecure", "--proto", filepath.Join(protoFolder, "grpc_predict_v2.proto"), "--call", service+".ModelInfer",
				"-D", write(t, "request.json", data), "-n", fmt.Sprint(n), "-c", "8", "--connections", "2", "-t", "5m", "-O", "json", rpc)
			if err := json.Unmarshal([]byte(report), &r); err != nil || r.Count != n || r.StatusCodeDistribution["OK"] != n || len(r.ErrorDistribution) > 0 {
				t.Fatalf("%v: %s", err, report)
			}
			sent += n
		}
	})
	t.Run("hey", func(t *testing.T) {
		const n = 200
		body := textOf(t, map[string]any{"inputs": []any{map[string]any{"name": "input", "datatype": "FP32", "shape": x.Shape, "data": reservoirInput()}}})
		report := output(t, 0, hey, "-n", fmt.Sprint(n), "-c", "8", "-t", "0", "-m", "POST", "-T", "application/json", "-D", write(t, "request.json", body), "-o", "csv", web+"/v2/models/reservoir/infer")
		rows, err := csv.NewReader(strings.NewReader(report)).ReadAll()
		if err != nil || len(rows) != n+1 {
			t.Fatalf("%v: %d rows\n%s", err, len(rows), report)
		}
		column := slices.Index(rows[0], "status-code")
		for _, row := range rows[1:] {
			if column < 0 || row[column] != "200" {
				t.Fatalf("%v", row)
			}
		}
		sent += n
	})
	if got := counted(t, web); got != float64(sent) {
		t.Errorf("the figures have %v predictions that succeeded, and clients sent %d", got, sent)
	}
}

// A token goes in grpcurl's and ghz's metadata.
func TestClientsToken(t *testing.T) {
	grpcurl, ghz := client(t, "grpcurl"), client(t, "ghz")
	const token = "0123456789abcdef0123456789abcdef"
	tokens := write(t, "tokens", "ann "+token+"\n")
	if err := os.Chmod(tokens, 0o600); err != nil {
		t.Fatal(err)
	}
	_, rpc, end := served(t, "tokens: "+tokens+"\n")
	defer end()
	const method = "inference.GRPCInferenceService/ServerMetadata"
	proto := []string{"-plaintext", "-import-path", protoFolder, "-proto", "grpc_predict_v2.proto"}
	if got := output(t, 64+16, grpcurl, append(proto, rpc, method)...); !strings.Contains(got, "Unauthenticated") {
		t.Error(got)
	}
	if got := output(t, 1, grpcurl, "-plaintext", rpc, "list"); !strings.Contains(got, "token") {
		t.Error(got)
	}
	if got := output(t, 0, grpcurl, append(proto, "-H", "authorization: Bearer "+token, rpc, method)...); !strings.Contains(got, "weft") {
		t.Error(got)
	}
	if got := output(t, 0, grpcurl, append(proto, rpc, "inference.GRPCInferenceService/ServerReady")...); !strings.Contains(got, "true") {
		t.Error(got)
	}
	report := output(t, 0, ghz, "--insecure", "--proto", filepath.Join(protoFolder, "grpc_predict_v2.proto"), "--call", strings.Replace(method, "/", ".", 1),
		"-m", textOf(t, map[string]string{"authorization": "Bearer " + token}), "-n", "20", "-c", "2", "-O", "json", rpc)
	if !strings.Contains(strings.Join(strings.Fields(report), ""), `"statusCodeDistribution":{"OK":20}`) {
		t.Error(report)
	}
}

// textOf is a value as JSON.
func textOf(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// predicted returns the answer that weft's own client gets from a server.
func predicted(t *testing.T, address string, x api.Tensor) []float32 {
	t.Helper()
	c, err := api.NewClient(address, api.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Infer(t.Context(), &api.InferRequest{Model: "reservoir", Timeout: 5 * time.Minute, Inputs: []api.Tensor{x}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := api.Values[float32](&r.Outputs[0])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// elements are those of the only output of an answer that grpcurl printed.
func elements(t *testing.T, answer string) []float32 {
	t.Helper()
	var a struct {
		ID      string
		Outputs []struct {
			Shape    []json.Number
			Datatype string
			Contents struct{ Fp32Contents []float32 }
		}
		RawOutputContents [][]byte
	}
	if err := json.Unmarshal([]byte(answer), &a); err != nil || a.ID != "r" || len(a.Outputs) != 1 || a.Outputs[0].Datatype != "FP32" {
		t.Fatalf("%v: %s", err, answer)
	}
	if len(a.RawOutputContents) == 0 {
		return a.Outputs[0].Contents.Fp32Contents
	}
	b := a.RawOutputContents[0]
	v, err := api.Values[float32](&api.Tensor{Datatype: "FP32", Shape: []int64{int64(len(b) / 4)}, Data: b})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// counted is how many predictions of the reservoir succeeded, by the parser of Prometheus.
func counted(t *testing.T, address string) float64 {
	t.Helper()
	r, err := http.Get(address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families["weft_requests_ended_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "result" && l.GetValue() == "succeeded" {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}
