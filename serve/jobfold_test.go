package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-run/weft"
	"github.com/weft-run/weft/api"
	"github.com/weft-run/weft/internal/catalog"
	"github.com/weft-run/weft/internal/test/poll"
	"github.com/weft-run/weft/workload/protein/fold"
)

// allFuncs are the kernels of all jobs.
func allFuncs() map[string]weft.Func {
	all := catalog.Funcs()
	maps.Copy(all, fold.Funcs())
	return all
}

// foldDevices opens the cores of this machine.
func foldDevices(t *testing.T) *weft.Runtime {
	t.Helper()
	rt, err := weft.Open(t.Context(), weft.Options{Devices: "cpu", NoCalibrate: true, CacheDir: "off", Funcs: allFuncs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	return rt
}

// shortFold are the parameters of a short folding, and foldConfig what they mean.
const shortFold = `"steps":440,"frame":20,"replicas":9,"temperature":"0.6-1.1","seed":7`

var foldConfig = fold.Config{Steps: 440, Every: 20, Replicas: 9, Low: 0.6, High: 1.1, Seed: 7}

// A job that folds has the numbers and the trajectory that a run of its own has, which is written while it is computed
// as weft run fold does it; also where the structure came as a text.
func TestJobFold(t *testing.T) {
	rt := foldDevices(t)
	h, _, _ := handlerOf(t, func(o *parts) { o.Runtime = rt })
	c := foldConfig
	c.Structure = "BPTI"
	r, err := fold.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Do(t.Context(), rt, nil); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../workload/protein/testdata/bpti.pdb")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"dcd", "pdb", "xtc", ""} {
		j, got := ended(t, h, fmt.Sprintf(`{"workload":"fold","parameters":{"structure":"bpti","trajectory":%q,%s},"check":%v}`, format, shortFold, format == "pdb"), 201)
		if j.State != api.JobSucceeded || got.Checked != (format == "pdb") || got.Checked != (len(got.Misses) > 0) || got.Job != r.Name() {
			t.Fatalf("%s: %+v, %s: %s", format, got, j.State, j.Error)
		}
		var want bytes.Buffer
		if format != "" {
			stream, err := fold.NewStream(r, &want, format)
			if err == nil {
				err = stream.Write(r.Rounds())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got.Trajectory, want.Bytes()) {
			t.Errorf("%s: the trajectory has %d bytes that are not the %d", format, len(got.Trajectory), want.Len())
		}
		var rep struct {
			Replicas   []fold.Frame
			Best       fold.Frame
			Ladder     []float64
			Frames     int
			Done       int `json:"frames_done"`
			Acceptance float64
			Heat       *fold.Heat `json:"heat_capacity"`
		}
		if err := json.Unmarshal(got.Report, &rep); err != nil {
			t.Fatal(err)
		}
		for k, f := range rep.Replicas {
			if f != r.Frame(21, k) {
				t.Errorf("%s: replica %d is %+v, want %+v", format, k, f, r.Frame(21, k))
			}
		}
		heat, err := r.Heat()
		asked, done := r.Exchanges()
		if err != nil || len(rep.Replicas) != 9 || rep.Best != r.Best(22) || rep.Frames != 22 || rep.Done != 22 || rep.Acceptance != float64(done)/float64(asked) ||
			!reflect.DeepEqual(rep.Ladder, r.Temperatures()) || !reflect.DeepEqual(rep.Heat, heat) {
			t.Errorf("%s: %s", format, got.Report)
		}
		if format != "pdb" {
			continue
		}
		if j, sent := ended(t, h, withStructure("fold", `"trajectory":"pdb",`+shortFold, string(text)), 201); !bytes.Equal(sent.Trajectory, got.Trajectory) || !sent.Checked {
			t.Errorf("of a text: %d bytes, %d of the name: %s", len(sent.Trajectory), len(got.Trajectory), j.Error)
		}
	}
}

// What weft run fold refuses before it computes anything is refused when the job is submitted, in the same words.
func TestJobFoldRefused(t *testing.T) {
	rt := foldDevices(t)
	h, _, _ := handlerOf(t, func(o *parts) { o.Runtime = rt })
	for _, c := range []struct{ parameters, text, want string }{
		{`"temperature":"0"`, "", "--temperature 0: give a number above 0, or two as in 0.6-1.1"},
		{`"temperature":"1-0.5"`, "", "they must grow"},
		{`"spacing":"even"`, "", "--spacing even: give geometric or tuned"},
		{`"spacing":"tuned"`, "", "it needs three or more replicas"},
		{`"steps":0`, "", "--steps 0, --frame 1000, --replicas 16: give 1 or more"},
		{`"steps":-1`, "", "fold: -1 steps"},
		{`"steps":10,"frame":20`, "", "not more than all"},
		{`"replicas":65537`, "", "there must be 1 to 65536"},
		{`"split-chain":"always"`, "", "several are dealt out whole"},
		{`"chain":"Q"`, "", "chain"},
		{`"model":-1`, "", "models have numbers from 1 on"},
		{`"structure":"/etc/hosts"`, "", "parameter structure: unknown structure"},
		{`"structure":"1CRN,1UBI"`, "", "parameter structure: unknown structure"},
		{`"structure":""`, "", "parameter structure: it is empty"},
		{`"structure":"1CRN"`, helixText(9, ""), "send one of them"},
		{`"out":"/tmp/x.dcd"`, "", "unknown parameter"},
		{`"checkpoint":"/tmp/x"`, "", "unknown parameter"},
		{`"html":"/tmp/x"`, "", "unknown parameter"},
		{`"trajectory":"mp4"`, "", "use dcd, pdb or xtc"},
		{`"trajectory":"/tmp/x.dcd"`, "", "use dcd, pdb or xtc"},
		{`"trajectory":"pdb","steps":10000,"frame":1,"replicas":1`, helixText(5, ""), "10000 frames have no place in the PDB format"},
		{`"trajectory":"dcd","frame":20`, "", "25000 frames and 16 replicas of 46 residues make a result of up to 19206664 bytes (the trajectory 14400196 before base64), and 12582912 are the most"},
		{`"replicas":40000`, "", "make a result of up to 16000000 bytes"},
		{`"trajectory":"pdb","steps":9,"frame":9`, helixText(560, ""), "has no place in the PDB format"},
		{"", helixText(3, ""), "a model needs 4 residues or more"},
		{"", helixText(4, ""), "has no native contacts"},
		{"", "nothing", "not a usable structure"},
	} {
		body := fmt.Sprintf(`{"workload":"fold","parameters":{%s}}`, c.parameters)
		if c.text != "" {
			body = withStructure("fold", c.parameters, c.text)
		}
		w := ask(h, "POST", "/v1/jobs", body)
		if e := saidError(t, w); w.Code != 400 || !strings.Contains(e, c.want) {
			t.Errorf("%s: status %d: %s", c.parameters, w.Code, e)
		}
	}
	if w := ask(h, "POST", "/v1/jobs", `{"workload":"fold","repeat":2}`); w.Code != 400 || !strings.Contains(saidError(t, w), "fold runs once") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	if w := ask(h, "GET", "/v1/workloads", ""); !strings.Contains(w.Body.String(), `{"name":"fold","does":"`+foldDoes) {
		t.Errorf("%s", w.Body)
	}
}

// A folding ends when it is cancelled, within a round that would take days.
func TestJobFoldCancelled(t *testing.T) {
	rt := foldDevices(t)
	h, _, s := handlerOf(t, func(o *parts) { o.Runtime = rt })
	w := ask(h, "POST", "/v1/jobs", `{"workload":"fold","parameters":{"steps":1000000000,"frame":1000000000}}`)
	var j api.Job
	if err := json.Unmarshal(w.Body.Bytes(), &j); err != nil || w.Code != 201 {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	poll.True(t, "it computes", func() bool { return rt.Metrics().Devices[0].Queued > 0 })
	if w := ask(h, "DELETE", "/v1/jobs/"+j.ID, ""); w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	poll.True(t, "it is cancelled", func() bool { now, err := s.jobs.get(j.ID); return err == nil && now.State == api.JobCancelled })
}

// A folding goes on from its newest checkpoint when the server is started again after it was killed, with the report and
// the trajectory of one that was never interrupted.
func TestJobFoldKept(t *testing.T) {
	t.Setenv(keptState, "1")
	dir, err := os.MkdirTemp("", "w") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	k := &killing{t: t, dir: dir}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "s"))
	}}
	k.client = &http.Client{Transport: transport, Timeout: patience}
	defer transport.CloseIdleConnections()
	answers := func() bool { _, _, err := k.ask("GET", "/healthz", "", ""); return err == nil }
	kept := checkpoints{dir: filepath.Join(dir, "state", checkpointsFolder)}
	begin := func(key string) (j api.Job) {
		text := helixText(40, "")
		status, b, err := k.ask("POST", "/v1/jobs", key, withStructure("fold", `"steps":40000,"frame":100,"replicas":8,"temperature":"0.6-1.1","trajectory":"dcd"`, text))
		if err != nil || status != 201 {
			t.Fatalf("status %d: %s %v", status, b, err)
		}
		if err := json.Unmarshal([]byte(b), &j); err != nil {
			t.Fatal(err)
		}
		return j
	}
	result := func(id string) (r api.JobResult, now api.Job) {
		poll.True(t, "the job has ended", func() bool { k.of("/v1/jobs/"+id, &now); return now.Over() })
		if status := k.of("/v1/jobs/"+id+"/result", &r); status != 200 {
			t.Fatalf("%+v", now)
		}
		return r, now
	}
	c := k.start()
	poll.True(t, "it answers", answers)
	j := begin("one")
	poll.True(t, "a checkpoint", func() bool { done, _ := kept.newest(j.ID); return done > 0 })
	k.end(c, os.Kill)
	transport.CloseIdleConnections()
	c = k.start()
	poll.True(t, "it answers", answers)
	resumed, now := result(j.ID)
	if now.Resumed == nil || now.Resumed.From < 1 || now.Resumed.Of != 400 || now.StructureBytes == 0 {
		t.Errorf("it went on from %+v", now.Resumed)
	}
	whole, _ := result(begin("two").ID)
	numbers := func(r api.JobResult) map[string]any {
		var m map[string]any
		if err := json.Unmarshal(r.Report, &m); err != nil {
			t.Fatal(err)
		}
		delete(m, "steps_per_second")
		return m
	}
	if len(whole.Trajectory) == 0 || !bytes.Equal(resumed.Trajectory, whole.Trajectory) || !reflect.DeepEqual(numbers(resumed), numbers(whole)) || resumed.Runs[0].Rate != "-" || !resumed.Checked {
		t.Errorf("it went on to\n%s\nand at once there is\n%s", resumed.Report, whole.Report)
	}
	k.end(c, syscall.SIGTERM)
}
