package sched

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

var rewrite = flag.Bool("rewrite", false, "write the expected output in testdata anew")

// TestGolden runs the scenarios in testdata. A file is a series of blocks:
// input lines, a line of dashes, the expected output, an empty line. Lines
// that begin with # are comments. What a block defines holds for the rest of
// the file, until a line "machine" begins anew.
//
//	device NAME class=0 score=95 util=0.8 load=0.5 free=1ms queued=2 cap=8e9 slow=2 down host
//	link NAME NAME [nvlink|switch]    copies always take 10µs and a second per 10 GB
//	task NAME cost=1ms,2ms in=1e6@NAME,2e6@NAME+NAME hint=NAME only=NAME,NAME priority=1 need=1e9 at=1ms
//	share NAME rate=95 free=8e9 margin=1e9 util=0.5 link=1e10 latency=10us
//	items extent=10000 align=32 bytes=100 rows
//	load NAME util=0.95 queued=10 weight=0.075
//	place POLICY · explain POLICY TASK · steal POLICY THIEF · learn POLICY NAME ratio=2 n=10
//	partition NAME · rebalance now=1s last=0 max=10
//	stats 100ms,50ms      what a device's account says after tasks that took so long
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s scenario
			s.run("machine")
			var out strings.Builder
			for _, block := range strings.Split(strings.TrimRight(string(src), "\n"), "\n\n") {
				input, want, ok := strings.Cut(block, "\n----")
				if !ok { // comments and definitions without output
					input, want = block, ""
				}
				got := ""
				for line := range strings.Lines(input) {
					if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
						got += s.run(line)
					}
				}
				got = strings.TrimRight(got, "\n")
				if want = strings.Trim(want, "\n"); got != want && !*rewrite {
					t.Errorf("%s\ngot:\n%s\nwant:\n%s", input, got, want)
				}
				out.WriteString(input)
				if got != "" {
					out.WriteString("\n----\n" + got)
				}
				out.WriteString("\n\n")
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(strings.TrimRight(out.String(), "\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// scenario is the state of a file being run.
type scenario struct {
	m         *machine.Machine
	situation Situation
	names     []string // of tasks
	shares    []Share
	labels    []string // of shares
	items     Items
	loads     []Load
	policies  map[string]Policy // survive between lines, so that they can learn
}

// args are the key=value words of a line; other words are keys of "true".
type args map[string]string

func (a args) num(key string, otherwise float64) float64 {
	if a[key] == "" {
		return otherwise
	}
	x, err := strconv.ParseFloat(a[key], 64)
	if err != nil {
		panic(err)
	}
	return x
}

func (a args) dur(key string) time.Duration { return dur(a[key]) }

func dur(s string) time.Duration {
	if s == "" || s == "-" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func (s *scenario) device(name string) machine.DeviceID {
	for i := range s.m.Devices {
		if s.m.Devices[i].Name == name {
			return machine.DeviceID(i)
		}
	}
	if name == "" || name == "host" {
		return machine.Host
	}
	panic("unknown device " + name)
}

func (s *scenario) policy(name string) (Policy, error) {
	if s.policies[name] == nil {
		f, err := New(name)
		if err != nil {
			return nil, err
		}
		s.policies[name] = f(Problem{Machine: s.m, Cost: uniform(), Seed: 1})
	}
	return s.policies[name], nil
}

// run does one line and returns its output.
func (s *scenario) run(line string) string {
	words := strings.Fields(line)
	name := ""
	a := args{}
	for k, w := range words[1:] {
		key, val, ok := strings.Cut(w, "=")
		switch {
		case ok:
			a[key] = val
		case k == 0:
			name = w
		default:
			a[w] = "true"
		}
	}
	switch words[0] {
	case "machine":
		*s = scenario{m: &machine.Machine{}, policies: map[string]Policy{}}
	case "device":
		s.m.Devices = append(s.m.Devices, machine.Device{Name: name})
		d := Device{Class: int32(a.num("class", 0)), Accepts: a["down"] == "", HostMemory: a["host"] != "",
			FreeAt: a.dur("free"), Queued: int32(a.num("queued", 0)), CapBytes: int64(a.num("cap", 8e9)),
			Util: a.num("util", 0), Load: a.num("load", 0), Slow: a.num("slow", 1), Score: a.num("score", 50)}
		d.FreeBytes = int64(a.num("room", float64(d.CapBytes)))
		s.situation.Devices = append(s.situation.Devices, d)
		s.situation.Classes = max(s.situation.Classes, d.Class+1)
		s.m.Devices[len(s.m.Devices)-1].HostMemory = d.HostMemory
	case "link":
		kind := machine.PCIe
		if a["nvlink"] != "" {
			kind = machine.NVLink
		}
		s.m.Links = append(s.m.Links, machine.Link{A: s.device(name), B: s.device(words[2]), Kind: kind, BPS: 1e10})
	case "task":
		s.task(name, a)
	case "share":
		s.labels = append(s.labels, name)
		s.shares = append(s.shares, Share{Rate: a.num("rate", 1), FreeBytes: int64(a.num("free", 8e9)), MarginBytes: int64(a.num("margin", 0)),
			Util: a.num("util", 0), LinkBPS: a.num("link", 0), Latency: a.dur("latency")})
	case "items":
		s.items = Items{Extent: int64(a.num("extent", 0)), Align: int64(a.num("align", 0))}
		if a["rows"] != "" {
			s.items = landscape(s.items.Extent + 2)
		}
		each := int64(a.num("bytes", 0))
		s.items.Bytes = func(lo, hi int64) (int64, int64) { return each * (hi - lo), 0 }
	case "load":
		l := Load{Device: machine.DeviceID(len(s.loads)), Util: a.num("util", 0)}
		for k := range int(a.num("queued", 0)) {
			l.Queued = append(l.Queued, QueuedTask{Task: int32(100*len(s.loads) + k), Weight: a.num("weight", 0)})
		}
		s.loads = append(s.loads, l)
		s.m.Devices = append(s.m.Devices, machine.Device{Name: name})
	case "tasks": // forget them
		s.situation.Tasks, s.names = nil, nil
	case "place", "explain", "steal", "learn":
		return s.decide(words[0], name, words, a)
	case "partition":
		return s.partition(name)
	case "stats":
		var st machine.Stats
		for took := range strings.SplitSeq(name, ",") {
			st.Start()
			st.Observe(dur(took))
		}
		return fmt.Sprintf("total_tasks=%d, total=%d, avg=%.1f in ms, %d active\n",
			st.Tasks, st.Total.Milliseconds(), float64(st.Avg())/1e6, st.Active)
	case "rebalance":
		return s.rebalance(a)
	default:
		panic("unknown word " + words[0])
	}
	return ""
}

func (s *scenario) task(name string, a args) {
	t := Ready{Task: graph.TaskID(len(s.situation.Tasks)), Run: 1, Kernel: &graph.Kernel{Name: name}, Ops: 1e6, Priority: int(a.num("priority", 0)),
		InputsAt: a.dur("at"), Need: int64(a.num("need", 0)), HostNeed: int64(a.num("need", 0)), Hint: s.device(a["hint"]), Near: -1}
	for _, c := range strings.Split(a["cost"], ",") {
		if c == "-" {
			t.Cost = append(t.Cost, -1)
		} else {
			t.Cost = append(t.Cost, dur(c))
		}
	}
	if a["in"] != "" {
		for value, in := range strings.Split(a["in"], ",") {
			size, at, _ := strings.Cut(in, "@")
			bytes, err := strconv.ParseFloat(size, 64)
			if err != nil {
				panic(err)
			}
			for _, holder := range strings.Split(at, "+") {
				t.Inputs = append(t.Inputs, Input{Value: int32(value), Bytes: int64(bytes), At: s.device(holder)})
			}
		}
	}
	if a["only"] != "" {
		for _, d := range strings.Split(a["only"], ",") {
			t.Only = append(t.Only, s.device(d))
		}
		slices.Sort(t.Only)
	}
	s.situation.Tasks = append(s.situation.Tasks, t)
	s.names = append(s.names, name)
}

func (s *scenario) decide(verb, name string, words []string, a args) string {
	p, err := s.policy(name)
	if err != nil {
		return err.Error() + "\n"
	}
	v := s.situation.clone() // every line sees the state as defined
	for d := range v.Devices {
		v.Dirty = append(v.Dirty, machine.DeviceID(d))
	}
	switch verb {
	case "explain":
		return p.(Explainer).Explain(v, slices.Index(s.names, words[2])).Text(s.m)
	case "steal":
		if victim := p.(Stealer).Steal(v, s.device(words[2])); victim >= 0 {
			return fmt.Sprintf("%s takes from %s\n", words[2], s.m.Devices[victim].Name)
		}
		return words[2] + " takes nothing\n"
	case "learn": // outcomes of the first task
		t, d := &v.Tasks[0], s.device(words[2])
		cost := t.Cost[v.Devices[d].Class]
		for range int(a.num("n", 1)) {
			took := time.Duration(float64(cost) * a.num("ratio", 1))
			p.(Observer).Observe(Outcome{Kernel: t.Kernel, Ops: t.Ops, Bytes: t.Bytes, Device: d, Predicted: cost, Took: took, Turnaround: took})
		}
		return ""
	}
	out := ""
	placed := p.Place(v, nil)
	for _, pl := range placed {
		out += fmt.Sprintf("%s → %s\n", s.names[pl.Task], s.m.Devices[pl.Device].Name)
	}
	for i, n := range s.names {
		if !slices.ContainsFunc(placed, func(p Placement) bool { return p.Task == int32(i) }) {
			out += n + " stays\n"
		}
	}
	out += "free at:"
	for d := range v.Devices {
		out += fmt.Sprintf(" %s %v", s.m.Devices[d].Name, v.Devices[d].FreeAt)
	}
	return out + "\n"
}

func (s *scenario) partition(name string) string {
	part, err := NewPartitioner(name)
	if err != nil {
		return err.Error() + "\n"
	}
	got, err := part(s.items, s.shares)
	if err != nil {
		return err.Error() + "\n"
	}
	out := ""
	for k, r := range got.Ranges {
		out += fmt.Sprintf("%s [%d, %d) %d items, %.1f %%\n", s.labels[k], r.Lo, r.Hi, r.Len(), 100*float64(r.Len())/float64(s.items.Extent))
	}
	return out + fmt.Sprintf("done in %v, balance %.3f, %d bytes moved\n", got.Completion, got.Balance, got.BytesMoved)
}

func (s *scenario) rebalance(a args) string {
	moves := Rebalance(s.loads, RebalanceOptions{Now: a.dur("now"), Last: a.dur("last"), MaxMoves: int(a.num("max", 0))})
	util, tasks := make([]float64, len(s.loads)), make([]int, len(s.loads))
	weight := map[int32]float64{}
	for k, l := range s.loads {
		util[k], tasks[k] = l.Util, len(l.Queued)
		for _, q := range l.Queued {
			weight[q.Task] = q.Weight
		}
	}
	out := fmt.Sprintf("%d moves\n", len(moves))
	for _, m := range moves {
		util[m.From] -= weight[m.Task]
		util[m.To] += weight[m.Task]
		tasks[m.From]--
		tasks[m.To]++
		out += fmt.Sprintf("task %d: %s → %s\n", m.Task, s.m.Devices[m.From].Name, s.m.Devices[m.To].Name)
	}
	for k := range s.loads {
		out += fmt.Sprintf("%s %.1f %% (%d)\n", s.m.Devices[k].Name, 100*util[k], tasks[k])
	}
	return out
}
