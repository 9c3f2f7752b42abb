package infer

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/graph"
)

func TestConfig(t *testing.T) {
	c, err := parseConfig([]byte(`# a model
name: m
kind: graph
file: sub/m.json
batch: 8
warmup: 3
deadline: 50ms
timeout: 2s
max_wait: 1ms
waiting: 7
copies: 2
memory: 3MiB
finite: true
inputs:
  - name: x
    type: FP32
    shape: [8, 3]
outputs: [{name: y}]
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &config{Name: "m", Kind: "graph", File: "sub/m.json", Batch: 8, Warmup: 3, Deadline: 50 * time.Millisecond, Timeout: 2 * time.Second,
		MaxWait: time.Millisecond, Waiting: 7, Copies: 2, Memory: 3 << 20, Finite: true,
		Inputs:  []port{{Spec{"x", FP32, []int64{8, 3}}, 15}},
		Outputs: []port{{Spec{Name: "y"}, 18}}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v", c)
	}
	for kind, batch := range map[string]int{"graph": 1, "reservoir": 32} {
		c, err := parseConfig([]byte("kind: " + kind + "\nfile: f"))
		if err != nil || c.Batch != batch || c.Warmup != 1 || c.Timeout != time.Minute || c.Waiting != 1000 || c.Memory != 1<<30 || c.Deadline != 0 {
			t.Errorf("%s: %+v, %v", kind, c, err)
		}
	}
}

// A mistake is one line with the number of its own.
func TestConfigMistakes(t *testing.T) {
	for src, want := range map[string]string{
		"":                                                                 `line 1: it is empty`,
		"# nothing\n":                                                      `line 1: it is empty`,
		"- a\n":                                                            `line 1: a list is where keys and values belong`,
		"kind: graph\n":                                                    `line 1: file is missing`,
		"\nfile: f\n":                                                      `line 2: kind is missing`,
		"kind: graph\nfiel: f\n":                                           `line 2: unknown key "fiel"`,
		"kind: graph\nkind: graph\n":                                       `line 2: kind is there twice`,
		"kind: grahp\nfile: f\n":                                           `line 1: kind: unknown kind "grahp"`,
		"kind: graph\nfile: ../f\n":                                        `is not below the model's folder`,
		"kind: graph\nfile: /etc/f\n":                                      `is not below the model's folder`,
		"kind: graph\nfile: a/../../f":                                     `is not below the model's folder`,
		"kind: graph\nfile: \n":                                            `line 2: file: "" is no text`,
		"file: f\nkind: graph\nbatch: 0\n":                                 `line 3: batch: "0" is not a whole number from 1 to 65536`,
		"file: f\nkind: graph\nbatch: 0.5\n":                               `line 3: batch: "0.5" is not a whole number`,
		"file: f\nkind: graph\nbatch: 010\n":                               `line 3: batch: "010" is not a whole number`,
		"file: f\nkind: graph\nbatch: '8'\n":                               `line 3: batch: "8" is not a whole number`,
		"file: f\nkind: graph\nbatch:\n":                                   `line 3: batch: `,
		"file: f\nkind: graph\nmemory: 010\n":                              `line 3: memory: `,
		"file: f\nkind: graph\ntimeout: 10\n":                              `line 3: timeout: `,
		"file: f\nkind: graph\ntimeout: [1s]\n":                            `line 3: timeout: a list is no duration`,
		"file: f\nkind: graph\n---\nbatch: 8\n":                            `line 3: a second document`,
		"file: f\nkind: graph\nbatch: 1e3\n":                               `line 3: batch: "1e3" is not`,
		"file: f\nkind: graph\nbatch: [1]\n":                               `line 3: batch: a list is not`,
		"file: f\nkind: graph\ndeadline: 5\n":                              `line 3: deadline: "5" is no duration`,
		"file: f\nkind: graph\nmemory: much\n":                             `line 3: memory: "much" is no size above zero`,
		"file: f\nkind: graph\nmemory: 0\n":                                `line 3: memory: "0" is no size above zero`,
		"file: f\nkind: graph\ndeadline: -5s\n":                            `line 3: deadline: "-5s" is no duration`,
		"file: f\nkind: graph\nfinite: yes\n":                              `line 3: finite: "yes" is neither true nor false`,
		"file: f\nkind: graph\ninputs: {}\n":                               `line 3: inputs: a mapping is no list`,
		"file: f\nkind: graph\ninputs:\n  - type: FP32\n":                  `line 4: an input or output has no name`,
		"file: f\nkind: graph\ninputs:\n  - name: x\n    type: float\n":    `line 5: type: unknown type "float"`,
		"file: f\nkind: graph\ninputs:\n  - name: x\n  - name: x\n":        `line 5: x is there twice`,
		"file: f\nkind: graph\ninputs:\n  - name: x\n    shape: [-1, 3]\n": `line 5: shape: "-1" is not a whole number`,
		"file: f\nkind: graph\ninputs:\n  - name: x\n    shape: [2000000000, 2000000000]\n": `line 5: shape: [2000000000 2000000000] are more elements`,
		"file: &a f\nkind: *a\n":   `line 2: kind: a reference is no text`,
		"kind: graph\n\tfile: f\n": `line 2: no YAML`,
		"kind: \"graph\nfile: f\n": `no YAML`,
	} {
		_, err := parseConfig([]byte(src))
		var s *graph.SyntaxError
		if !errors.As(err, &s) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, not %s", src, err, want)
		}
	}
}

// FuzzConfig looks for what makes the parser panic, err in more than a line, or pass a value
// outside of its range.
func FuzzConfig(f *testing.F) {
	f.Add("name: m\nkind: graph\nfile: f.json\nbatch: 8\nwarmup: 3\ndeadline: 50ms\nfinite: true\ninputs:\n  - name: x\n    type: FP32\n    shape: [8, 3]\n")
	f.Add("kind: reservoir\nfile: a/b\noutputs: [{name: y}]\nwaiting: 7\ncopies: 2\nmax_wait: 1ms\ntimeout: 1s")
	f.Add("a: &a [*a]\n")
	f.Add("? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, src string) {
		c, err := parseConfig([]byte(src))
		if err != nil {
			var s *graph.SyntaxError
			if !errors.As(err, &s) || s.Line < 1 || s.Line > strings.Count(src, "\n")+strings.Count(src, "\r")+strings.Count(src, "\u2028")+strings.Count(src, "\u2029")+strings.Count(src, "\u0085")+2 || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q", err)
			}
			return
		}
		if c.Batch < 1 || c.Batch > maxBatch || c.Warmup < 0 || c.Deadline < 0 || c.Timeout <= 0 || c.Waiting < 1 || c.File == "" || strings.HasPrefix(c.File, "/") || strings.Contains("/"+c.File+"/", "/../") {
			t.Errorf("%+v", c)
		}
		for _, p := range append(c.Inputs, c.Outputs...) {
			if n, ok := count(p.Shape); p.Name == "" || !ok || n < 1 || p.Type != "" && p.Type.Size() == 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}
