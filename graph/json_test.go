package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// kitchenSink has every field of the format.
const kitchenSink = `{
  "tasks": [
    {"name": "fill", "kernel": "fill", "grid": 64, "block": [32, 8], "cluster": [2, 1, 3], "shared_bytes": "1KiB",
     "cooperative": true, "params": "AQID", "args": [0], "uses": [{"data": "A", "access": "write"}, {"data": "W"}]},
    {"name": "mix", "steps": [{"kernel": "scale", "grid": 6, "params": "AA=="}, {"kernel": "fill", "grid": [1, 1, 1]}],
     "uses": [{"data": "A", "offset": "1kB", "bytes": 24}, {"data": "B", "access": "readwrite", "rank": 1}],
     "after": ["fill", 0], "ops": 1.5e9, "work_bytes": "2MB", "unit": "tf32", "workspace": "1.5GiB",
     "priority": -3, "timeout": "5ms", "hint": "cuda:1", "only": ["cuda", "cpu"], "retries": -1, "gang": 2},
    {"kernel": "scale", "grid": 1, "work_bytes": 0.5, "uses": [{"data": "C", "access": "reduce"}],
     "params": [{"int": [7, 8]}, {"float32": 0.5}, {"float64": -1e300}, {"uint64": 18446744073709551615}, {"int32": -1}]}
  ],
  "data": [
    {"name": "A", "bytes": "8MB", "durability": "volatile"},
    {"name": "B", "bytes": 7, "input": true, "output": true, "durability": "mirrored", "tolerance": "same bytes", "secret": true},
    {"name": "C", "bytes": 8e6, "dtype": "f4", "input": true, "combine": "add", "tolerance": 0.25},
    {"name": "W", "dtype": "float16", "shape": [3, 5], "weights": "w/3x5.npy"},
    {"name": "S", "bytes": 8, "dtype": "i8", "shape": [], "input": true}
  ],
  "kernels": [
    {"name": "scale", "impls": [
      {"dialect": "ptx", "arch": "sm_75", "entry": "scale_f32", "source": ".version 6.3\n"},
      {"dialect": "spirv", "entry": "main", "source_base64": "AwIjBw=="},
      {"file": "k/scale.cu", "entry": "scale", "per": [128, "all"], "block": 128, "shared_bytes": "1KiB"},
      {"file": "scale.spv"},
      {"dialect": "go", "entry": "scale", "per": "all"}]}
  ]
}`

func TestDecode(t *testing.T) {
	var b Builder
	fill, add := goKernel("fill"), goKernel("add")
	scale := &Kernel{Name: "scale", Impls: []Impl{
		{Dialect: PTX, Arch: "sm_75", Entry: "scale_f32", Source: []byte(".version 6.3\n")},
		{Dialect: SPIRV, Entry: "main", Source: []byte{3, 2, 0x23, 7}},
		{Dialect: CUDAC, Entry: "scale", File: "k/scale.cu", Per: [3]uint32{128, All, 1}, Block: [3]uint32{128, 1, 1}, SharedBytes: 1024},
		{Dialect: SPIRV, Entry: "main", File: "scale.spv"},
		{Dialect: Go, Entry: "scale", Per: [3]uint32{All, 1, 1}},
	}}
	a := b.Data(Data{Name: "A", Bytes: 8_000_000, Durability: Volatile})
	bb := b.Data(Data{Name: "B", Bytes: 7, Input: true, Output: true, Durability: Mirrored, Tolerance: SameBytes, Secret: true})
	c := b.Data(Data{Name: "C", Bytes: 8_000_000, Input: true, Combine: add, Elem: F4, Tolerance: 0.25})
	w := b.Data(Data{Name: "W", Bytes: 30, Input: true, Elem: F2, Shape: []int64{3, 5}, Weights: "w/3x5.npy"})
	b.Data(Data{Name: "S", Bytes: 8, Input: true, Elem: I8, Shape: []int64{}})
	first := b.Add(Task{
		Name: "fill",
		Steps: []Step{{Kernel: fill, Params: []byte{1, 2, 3}, Args: []int{0}, Launch: Launch{
			Grid: [3]uint32{64, 1, 1}, Block: [3]uint32{32, 8, 1}, Cluster: [3]uint32{2, 1, 3}, SharedBytes: 1024, Cooperative: true,
		}}},
		Uses: []Use{{Data: a, Access: Write}, {Data: w}},
	})
	b.Add(Task{
		Name:  "mix",
		Steps: []Step{{Kernel: scale, Launch: Grid(6), Params: []byte{0}}, {Kernel: fill, Launch: Launch{Grid: [3]uint32{1, 1, 1}}}},
		Uses:  []Use{{Data: a, Offset: 1000, Bytes: 24}, {Data: bb, Access: ReadWrite, Rank: 1}},
		After: []TaskID{first, first},
		Work:  Work{Ops: 1.5e9, Bytes: 2e6, Unit: TF32}, Workspace: 3 << 29, Priority: -3, Timeout: 5 * time.Millisecond,
		On: Constraint{Hint: "cuda:1", Only: []string{"cuda", "cpu"}}, Retries: -1, Gang: 2,
	})
	last := Step{Kernel: scale, Launch: Grid(1)}.With(struct {
		A, B int
		C    float32
		D    float64
		E    uint64
		F    int32
	}{7, 8, 0.5, -1e300, math.MaxUint64, -1})
	b.Add(Task{Steps: []Step{last}, Uses: []Use{{Data: c, Access: Reduce}}, Work: Work{Bytes: 0.5}})
	want, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode([]byte(kitchenSink), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got:\n%s%+v\nwant:\n%s%+v", describe(got), got.tasks, describe(want), want.tasks)
	}
}

func TestEncode(t *testing.T) {
	g, err := Decode([]byte(kitchenSink), nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "data": [
    {"name":"A","bytes":8000000,"durability":"volatile"},
    {"name":"B","bytes":7,"durability":"mirrored","input":true,"output":true,"tolerance":"same bytes","secret":true},
    {"name":"C","bytes":8000000,"dtype":"float32","input":true,"combine":"add","tolerance":0.25},
    {"name":"W","bytes":30,"dtype":"float16","shape":[3,5],"input":true,"weights":"w/3x5.npy"},
    {"name":"S","bytes":8,"dtype":"int64","shape":[],"input":true},
    {"name":"C part 0","bytes":8000000,"dtype":"float32","tolerance":0.25}
  ],
  "kernels": [
    {"name":"add","impls":[{"dialect":"go","entry":"add"}]},
    {"name":"fill","impls":[{"dialect":"go","entry":"fill"}]},
    {"name":"scale","impls":[{"dialect":"ptx","arch":"sm_75","entry":"scale_f32","source":".version 6.3\n"},{"dialect":"spirv","entry":"main","source_base64":"AwIjBw=="},{"dialect":"cudac","entry":"scale","file":"k/scale.cu","per":[128,"all",1],"block":128,"shared_bytes":1024},{"dialect":"spirv","entry":"main","file":"scale.spv"},{"dialect":"go","entry":"scale","per":["all",1,1]}]}
  ],
  "tasks": [
    {"name":"fill","kernel":"fill","grid":64,"block":[32,8],"cluster":[2,1,3],"shared_bytes":1024,"cooperative":true,"params":"AQID","args":[0],"uses":[{"data":"A","access":"write"},{"data":"W"}]},
    {"name":"mix","steps":[{"kernel":"scale","grid":6,"params":"AA=="},{"kernel":"fill","grid":1}],"uses":[{"data":"A","offset":1000,"bytes":24},{"data":"B","access":"readwrite","rank":1}],"after":["fill","fill"],"ops":1500000000,"work_bytes":2000000,"unit":"tf32","workspace":1610612736,"priority":-3,"timeout":"5ms","hint":"cuda:1","only":["cuda","cpu"],"retries":-1,"gang":2},
    {"kernel":"scale","grid":1,"params":"BwAAAAgAAAAAAAA/AAAAAJx1AIg85Df+////////////////AAAAAA==","uses":[{"data":"C part 0","access":"write"}],"work_bytes":0.5},
    {"name":"combine C","kernel":"add","grid":1,"block":1,"uses":[{"data":"C","access":"readwrite"},{"data":"C part 0"}],"ops":4000000,"work_bytes":24000000}
  ]
}
`
	got, err := Encode(g)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestDecodeResolvesKernels(t *testing.T) {
	lib := &Kernel{Name: "gemm", Impls: []Impl{{Dialect: Library, Entry: "cublas.sgemm"}}}
	asked := ""
	resolve := func(name string) *Kernel {
		asked += name + " "
		if name == "gemm" {
			return lib
		}
		return nil
	}
	src := `{"kernels": [{"name": "own", "impls": [{"dialect": "go", "entry": "f"}]}],
	         "tasks": [{"kernel": "gemm"}, {"kernel": "own", "grid": 1}, {"kernel": "gemm"}]}`
	g, err := Decode([]byte(src), resolve)
	if err != nil {
		t.Fatal(err)
	}
	if k := g.Kernels(); len(k) != 2 || k[0] != lib || k[1].Impls[0].Entry != "f" {
		t.Errorf("kernels %+v", k)
	}
	if asked != "gemm " {
		t.Errorf("asked for %q; want gemm once, own never", asked)
	}
	_, err = Decode([]byte("{\"tasks\": [\n{\"kernel\": \"gone\"}]}"), resolve)
	if err == nil || err.Error() != `line 2: unknown kernel "gone": define it under "kernels"` {
		t.Errorf("got %v", err)
	}
	g, err = Decode([]byte(`{"tasks": [{"kernel": "gone", "grid": 1}]}`), nil)
	if err != nil || !reflect.DeepEqual(g.Kernels()[0], goKernel("gone")) {
		t.Errorf("got %v", err)
	}
}

// Every mistake names the line it is on. A case is the whole file; the line is
// the one that holds the mark §, which is taken out before decoding.
func TestDecodeMistakes(t *testing.T) {
	// wrap puts tasks behind 8-byte input x and 4-byte y, which nothing writes.
	wrap := func(tasks string) string {
		return `{"data": [
  {"name": "x", "bytes": 8, "input": true},
  {"name": "y", "bytes": 4}
],
"tasks": [` + tasks + `]}`
	}
	cases := []struct{ name, src, want string }{
		// How it is written.
		{"empty", "§", `not JSON: unexpected end of JSON input`},
		{"truncated", "{\n§\"data\": [", `not JSON: unexpected end of JSON input`},
		{"bad character", "{\n\n§  oops\n}", `not JSON: invalid character 'o' looking for beginning of object key string`},
		{"missing comma", "{\"data\": []\n§\"tasks\": []}", `not JSON: invalid character '"' after object key:value pair`},
		{"two values", "{}\n§{}", `not JSON: invalid character '{' after top-level value`},
		{"bomb", "§" + strings.Repeat("[", 20_000), `not JSON: invalid character '[' exceeded max depth`},
		// What it is made of.
		{"no object", "\n§[]", `the graph must be an object, not a list`},
		{"unknown section", "{\n§\"task\": []}", `unknown field "task" of the graph; known: data, kernels, tasks`},
		{"section twice", "{\"data\": [],\n§\"data\": []}", `field "data" is given twice`},
		{"section of another type", "{\"data\":\n§{}}", `data must be a list, not an object`},
		{"null", "{\"data\":\n§null}", `data must be a list, not null`},
		{"entry of another type", "{\"data\": [\n§3]}", `data must be an object, not 3`},
		{"data field", "{\"data\": [{\"name\": \"a\",\n§\"bites\": 3}]}",
			`unknown field "bites" of data; known: name, bytes, dtype, shape, durability, input, output, combine, tolerance, secret, weights`},
		{"kernel field", "{\"kernels\": [{\"name\": \"a\",\n§\"ptx\": 3}]}", `unknown field "ptx" of a kernel; known: name, impls`},
		{"impl field", "{\"kernels\": [{\"name\": \"a\", \"impls\": [{\n§\"ptx\": 3}]}]}",
			`unknown field "ptx" of an impl; known: dialect, arch, entry, source, source_base64, file, per, block, shared_bytes`},
		{"task field", wrap("{\"name\": \"t\",\n§\"use\": []}"),
			`unknown field "use" of a task; known: name, kernel, steps, uses, after, ops, work_bytes, unit, workspace, priority, timeout, hint, only, retries, gang, grid, block, cluster, shared_bytes, cooperative, params, args`},
		{"step field", wrap("{\"steps\": [{\n§\"name\": \"k\"}]}"),
			`unknown field "name" of a step; known: kernel, grid, block, cluster, shared_bytes, cooperative, params, args`},
		{"use field", wrap("{\"uses\": [{\n§\"name\": \"k\"}]}"), `unknown field "name" of a use; known: data, offset, bytes, access, rank`},
		{"name of another type", wrap("{\"name\":\n§7}"), `name must be text, not 7`},
		{"flag of another type", "{\"data\": [{\"input\":\n§\"yes\"}]}", `input must be true or false, not "yes"`},
		{"size of another type", "{\"data\": [{\"bytes\":\n§true}]}", `bytes must be a number or a size such as "8MB", not true`},
		{"size of no unit", "{\"data\": [{\"bytes\":\n§\"8 apples\"}]}", `bytes: bad size "8 apples"; write one such as 64KB, 1.5GiB or 4096`},
		{"size without number", "{\"data\": [{\"bytes\":\n§\"MB\"}]}", `bytes: bad size "MB"; write one such as 64KB, 1.5GiB or 4096`},
		{"part of a byte", "{\"data\": [{\"bytes\":\n§\"0.3B\"}]}", `bytes: bad size "0.3B"; it must be a whole number of bytes`},
		{"broken count", "{\"data\": [{\"bytes\":\n§1.5}]}", `bytes must be a whole number, not 1.5`},
		{"huge count", "{\"data\": [{\"bytes\":\n§1e300}]}", `bytes must be a whole number, not 1e300`},
		{"huge number", wrap("{\"ops\":\n§1e999}"), `ops must be a number, not 1e999`},
		{"durability", "{\"data\": [{\"durability\":\n§\"eternal\"}]}", `durability must be one of versioned, mirrored, volatile, not "eternal"`},
		{"access", wrap("{\"uses\": [{\"access\":\n§\"rw\"}]}"), `access must be one of read, write, readwrite, reduce, not "rw"`},
		{"unit", wrap("{\"unit\":\n§\"fp8\"}"), `unit must be one of fp32, fp64, tf32, fp16, int32, not "fp8"`},
		{"rank", wrap("{\"uses\": [{\"rank\":\n§99999}]}"), `rank must be from 0 to 32767, not 99999`},
		{"timeout", wrap("{\"timeout\":\n§\"soon\"}"), `timeout must be a duration such as "5ms", not "soon"`},
		{"params", wrap("{\"params\":\n§\"***\"}"), `params must be base64, not "***"`},
		{"args", wrap("{\"args\": [0,\n§-1]}"), `args must be from 0 to 2147483647, not -1`},
		{"grid", wrap("{\"grid\":\n§[1, 2, 3, 4]}"), `grid must be a number or a list of up to three, not a list`},
		{"grid too large", wrap("{\"grid\": [1,\n§4294967296]}"), `grid must be from 0 to 4294967295, not 4294967296`},
		{"only", wrap("{\"only\": [\"cpu\",\n§0]}"), `only must be text, not 0`},
		{"long text", wrap("{\"timeout\":\n§\"" + strings.Repeat("ä", 99) + "\"}"),
			`timeout must be a duration such as "5ms", not "` + strings.Repeat("ä", 40) + `…"`},
		// What it means.
		{"nameless data", "{\"data\": [\n§{\"bytes\": 3}]}", `data needs a name`},
		{"data twice", "{\"data\": [{\"name\": \"a\", \"bytes\": 3},\n§{\"name\": \"a\", \"bytes\": 3}]}", `data "a" is defined twice`},
		{"data without bytes", "{\"data\": [\n§{\"name\": \"a\"}]}", `data "a": bad size: 0 bytes; a handle needs at least 1`},
		{"dtype", "{\"data\": [{\"dtype\":\n§\"<f4\"}]}", `dtype must be one of float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64, bool, not "<f4"`},
		{"shape", "{\"data\": [{\"shape\": [3,\n§-1]}]}", `shape must be from 0 to 9223372036854775807, not -1`},
		{"shape without dtype", "{\"data\": [\n§{\"name\": \"a\", \"bytes\": 8, \"shape\": [2]}]}", `data "a": bad value: a shape needs a type of its elements`},
		{"shape of nothing", "{\"data\": [\n§{\"name\": \"a\", \"dtype\": \"f4\", \"shape\": [2, 0, 9223372036854775807]}]}", `data "a": bad size: 0 bytes; a handle needs at least 1`},
		{"shape of too much", "{\"data\": [\n§{\"name\": \"a\", \"dtype\": \"f4\", \"shape\": [4294967296, 4294967296]}]}",
			`data "a": bad size: elements of float32 in the shape [4294967296 4294967296]`},
		{"shape and bytes", "{\"data\": [\n§{\"name\": \"a\", \"bytes\": 25, \"dtype\": \"f4\", \"shape\": [2, 3]}]}",
			`data "a": bad size: it has 25 bytes, and float32 elements in the shape [2 3] take 24`},
		{"dtype and bytes", "{\"data\": [\n§{\"name\": \"a\", \"bytes\": 7, \"dtype\": \"u2\"}]}", `data "a": bad size: 7 bytes are no whole number of uint16 elements`},
		{"tolerance of bytes", "{\"data\": [\n§{\"name\": \"a\", \"bytes\": 1, \"tolerance\": 0.5}]}", `data "a": bad value: a tolerance needs elements that are floating-point numbers; say which, or that results are SameBytes`},
		{"tolerance below 0", "{\"data\": [{\"name\": \"a\", \"bytes\": 1,\n§\"tolerance\": -1}]}", `a tolerance is a number from 0 to 1, or "same bytes"`},
		{"tolerance above 1", "{\"data\": [\n§{\"name\": \"a\", \"bytes\": 4, \"dtype\": \"f4\", \"tolerance\": 2}]}", `data "a": bad value: a tolerance of 2; use a number from 0 to 1, or SameBytes`},
		{"weights that come out", "{\"data\": [\n§{\"name\": \"a\", \"bytes\": 1, \"weights\": \"w\", \"output\": true}]}", `data "a": bad value: weights are an input and no output`},
		{"weights without file", "{\"data\": [{\"name\": \"a\", \"bytes\": 1,\n§\"weights\": \"\"}]}", `weights is the name of a file, and it is empty`},
		{"weights that change", "{\"data\": [{\"name\": \"a\", \"bytes\": 1, \"weights\": \"w\"}], \"tasks\": [\n§{\"kernel\": \"k\", \"grid\": 1, \"uses\": [{\"data\": \"a\", \"access\": \"readwrite\"}]}]}",
			`task 0: bad value: readwrite of data "a", which has weights: they stay as they are`},
		{"file of no dialect", "{\"kernels\": [{\"name\": \"a\", \"impls\": [\n§{\"file\": \"a.c\"}]}]}",
			`file "a.c" has no ending that weft knows: .cu is CUDA C, .ptx is PTX, .spv is SPIR-V, .comp is GLSL; for others give the dialect`},
		{"file of another dialect", "{\"kernels\": [{\"name\": \"a\", \"impls\": [\n§{\"file\": \"a.cu\", \"dialect\": \"ptx\"}]}]}",
			`file "a.cu" is cudac by its ending, and the dialect says ptx`},
		{"file without entry", "{\"kernels\": [{\"name\": \"a\", \"impls\": [\n§{\"file\": \"a.ptx\"}]}]}", `file "a.ptx" needs an entry: the name of the function to launch`},
		{"file without name", "{\"kernels\": [{\"name\": \"a\", \"impls\": [{\n§\"file\": \"\"}]}]}", `file is the name of a file, and it is empty`},
		{"per", "{\"kernels\": [{\"name\": \"a\", \"impls\": [{\"per\": [1,\n§\"any\"]}]}]}", `per must be a whole number, not "any"`},
		{"shared", "{\"kernels\": [{\"name\": \"a\", \"impls\": [{\"shared_bytes\":\n§-1}]}]}", `shared_bytes must be a size, not -1`},
		{"params of another type", wrap("{\"params\":\n§7}"), `params must be base64 or a list such as [{"int": 64}, {"float32": 0.5}], not 7`},
		{"param without type", wrap("{\"params\": [\n§7]}"), `a parameter must be an object, not 7`},
		{"param of two types", wrap("{\"params\": [\n§{\"int\": 7, \"float32\": 7}]}"), `a parameter has one field, its type, as {"float32": 0.5}`},
		{"param of no type", wrap("{\"params\": [{\"int8\":\n§7}]}"), `unknown type "int8" of a parameter: ` + kinds},
		{"param out of range", wrap("{\"params\": [{\"int\":\n§-7}]}"), `int must be from 0 to 4294967295, not -7`},
		{"param too large", wrap("{\"params\": [{\"float32\": [1,\n§1e39]}]}"), `float32 must be within the range of a float32, not 1e39`},
		{"nameless kernel", "{\"kernels\": [\n§{\"impls\": []}]}", `a kernel needs a name`},
		{"kernel twice", "{\"kernels\": [{\"name\": \"a\", \"impls\": [{\"dialect\": \"go\"}]},\n§{\"name\": \"a\"}]}", `kernel "a" is defined twice`},
		{"hollow kernel", "{\"kernels\": [\n§{\"name\": \"a\"}]}", `kernel "a" has no impls`},
		{"no dialect", "{\"kernels\": [{\"name\": \"a\", \"impls\": [\n§{\"entry\": \"f\"}]}]}",
			`an impl needs a dialect: go, ptx, cudac, spirv, glsl or library`},
		{"two sources", "{\"kernels\": [{\"name\": \"a\", \"impls\": [{\"source\": \"f\",\n§\"source_base64\": \"\"}]}]}",
			`an impl has source, source_base64 or file, not source and source_base64`},
		{"nameless kernel use", wrap("{\"kernel\":\n§\"\"}"), `unknown kernel "": define it under "kernels"`},
		{"no kernel", wrap("\n§{\"name\": \"t\"}"), `task "t": missing implementation: no steps`},
		{"launch without kernel", wrap("\n§{\"name\": \"t\", \"grid\": 3}"), `a step needs a kernel`},
		{"step without kernel", wrap("{\"steps\": [{\"kernel\": \"k\", \"grid\": 1},\n§{\"grid\": 3}]}"), `a step needs a kernel`},
		{"steps twice", wrap("\n§{\"kernel\": \"k\", \"grid\": 1, \"steps\": [{\"kernel\": \"k\", \"grid\": 1}]}"),
			`a task has steps, or kernel and launch of its only step, not both`},
		{"unknown data", wrap("{\"kernel\": \"k\", \"grid\": 1, \"uses\": [{\"data\": \"x\"},\n{\n§\"data\": \"z\"}]}"), `unknown data "z": define it under "data"`},
		{"use without data", wrap("{\"kernel\": \"k\", \"grid\": 1, \"uses\": [\n§{\"bytes\": 3}]}"), `a use needs data`},
		{"empty use", wrap("{\"kernel\": \"k\", \"grid\": 1, \"uses\": [{\"data\": \"x\",\n§\"bytes\": 0}]}"),
			`a use of 0 bytes; leave bytes out for the rest of the data`},
		{"unknown task", wrap("{\"kernel\": \"k\", \"grid\": 1, \"after\": [\n§\"z\"]}"), `after an unknown task "z"`},
		{"unknown position", wrap("{\"kernel\": \"k\", \"grid\": 1, \"after\": [\n§1]}"), `after an unknown task 1: there are 1, counting from 0`},
		{"negative position", wrap("{\"kernel\": \"k\", \"grid\": 1, \"after\": [\n§-1]}"), `after must be from 0 to 2147483647, not -1`},
		{"after a list", wrap("{\"kernel\": \"k\", \"grid\": 1, \"after\": [\n§[]]}"), `after must be the name or position of a task, not a list`},
		{"after itself", wrap("{\"name\": \"t\", \"kernel\": \"k\", \"grid\": 1, \"after\": [\n§\"t\"]}"), `after task "t", which is not further up; move it there`},
		{"after a later task", wrap("{\"kernel\": \"k\", \"grid\": 1, \"after\": [\n§\"t\"]}, {\"name\": \"t\", \"kernel\": \"k\", \"grid\": 1}"),
			`after task "t", which is not further up; move it there`},
		{"ambiguous task", wrap(`{"name": "t", "kernel": "k", "grid": 1}, {"name": "t", "kernel": "k", "grid": 1}, {"kernel": "k", "grid": 1, "after": [` + "\n§\"t\"]}"),
			`after task "t", a name several tasks have; give its position, counting from 0`},
		{"no grid", wrap("\n§{\"name\": \"t\", \"kernel\": \"k\", \"uses\": [{\"data\": \"x\"}]}"),
			`kernel "k" has no grid: say how many items it computes, as "grid": 1000, or "grid": 1 for one`},
		{"step without grid", wrap("{\"steps\": [{\"kernel\": \"k\", \"grid\": 2},\n§{\"kernel\": \"k\", \"block\": 2}]}"),
			`kernel "k" has no grid: say how many items it computes, as "grid": 1000, or "grid": 1 for one`},
		{"grid of nothing", wrap("{\"kernel\": \"k\",\n§\"grid\": 0}"), `the grid has 0 items in a dimension: say how many the kernel computes, 1 at least`},
		{"flat grid", wrap("{\"kernel\": \"k\",\n§\"grid\": [4, 0]}"), `the grid has 0 items in a dimension: say how many the kernel computes, 1 at least`},
		// What the builder finds.
		{"past the end", wrap("\n{\"kernel\": \"k\", \"grid\": 1},\n§{\"name\": \"t\", \"kernel\": \"k\", \"grid\": 1, \"uses\": [\n{\"data\": \"x\", \"bytes\": 9}]}"),
			`task "t": bad size: bytes 0 to 9 of data "x", which has 8`},
		{"overlap", wrap("\n§{\"kernel\": \"k\", \"grid\": 1, \"uses\": [{\"data\": \"x\"}, {\"data\": \"x\", \"access\": \"write\"}]}"),
			`task 0: overlapping uses: read and write of data "x" share bytes; use one read-write`},
		{"unwritten", wrap("\n{\"kernel\": \"k\", \"grid\": 1},\n§{\"name\": \"t\",\n\"kernel\": \"k\", \"grid\": 1, \"uses\": [{\"data\": \"y\"}]}, {\"kernel\": \"k\", \"grid\": 1, \"uses\": [{\"data\": \"y\"}]}"),
			`task "t": read before anything was written: data "y" is no input and no earlier task writes it`},
		{"unwritten output", "{\"data\": [\n§{\"name\": \"z\", \"bytes\": 1, \"output\": true}]}",
			`data "z": read before anything was written: it is an output but nothing writes all of it`},
		{"unwritten reduction", "{\"tasks\": [{\"kernel\": \"k\", \"grid\": 1, \"uses\": [{\"data\": \"z\", \"access\": \"reduce\"}]}], \"data\": [\n§{\"name\": \"z\", \"bytes\": 1, \"combine\": \"k\"}]}",
			`task "combine z": read before anything was written: data "z" is no input and no earlier task writes it`},
		{"name of a part", "{\"tasks\": [{\"kernel\": \"k\", \"grid\": 1, \"uses\": [{\"data\": \"z\", \"access\": \"reduce\"}]}], \"data\": [{\"name\": \"z\", \"bytes\": 1, \"input\": true, \"combine\": \"k\"},\n§{\"name\": \"z part 0\", \"bytes\": 1}]}",
			`data "z part 0": name given twice: to data 1 and to a part of a reduction; rename it`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before, after, _ := strings.Cut(c.src, "§")
			want := fmt.Sprintf("line %d: %s", 1+strings.Count(before, "\n"), c.want)
			g, err := Decode([]byte(before+after), nil)
			if err == nil || g != nil {
				t.Fatal("decoded")
			}
			if err.Error() != want {
				t.Errorf("got:  %s\nwant: %s", err, want)
			}
		})
	}
}

func TestDecodeKeepsTheBuildersSentinel(t *testing.T) {
	_, err := Decode([]byte(`{"data": [{"name": "x", "bytes": 0}]}`), nil)
	var s *SyntaxError
	if !errors.As(err, &s) || !errors.Is(err, ErrSize) {
		t.Errorf("got %#v", err)
	}
	_, err = Decode([]byte(`{"data": [{"name": "x", "bytes": 1, "output": true}]}`), nil)
	if !errors.Is(err, ErrUnwritten) {
		t.Errorf("got %#v", err)
	}
}

func TestEncodeMistakes(t *testing.T) {
	k := goKernel("k")
	other := &Kernel{Name: "k", Impls: []Impl{{Dialect: Go, Entry: "other"}}}
	twin := goKernel("k")
	cases := []struct {
		name, want string
		do         func(b *Builder)
	}{
		{"kernels of one name", `encode graph: two kernels are called "k"; rename one`, func(b *Builder) {
			b.Add(Task{Steps: []Step{{Kernel: k}, {Kernel: other}}})
		}},
		{"equal kernels", "", func(b *Builder) { b.Add(Task{Steps: []Step{{Kernel: k}, {Kernel: twin}}}) }},
		{"nameless kernel", `encode graph: a kernel has no name`, func(b *Builder) {
			b.Add(Task{Steps: steps(&Kernel{Impls: k.Impls})})
		}},
		{"no dialect", `encode graph: kernel "d" has an implementation without a dialect`, func(b *Builder) {
			b.Add(Task{Steps: steps(&Kernel{Name: "d", Impls: []Impl{{Entry: "x"}}})})
		}},
		{"not UTF-8", `encode graph: "\xff" is not UTF-8`, func(b *Builder) { b.Add(Task{Name: "\xff", Steps: steps(k)}) }},
	}
	for _, c := range cases {
		var b Builder
		c.do(&b)
		g, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		_, err = Encode(g)
		if got := fmt.Sprint(err); got != c.want && (c.want != "" || err != nil) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// A short file can have tasks use very many pieces: it is refused before memory is taken.
func TestDecodeManyPieces(t *testing.T) {
	pieces := func(n int) error {
		var src strings.Builder
		fmt.Fprintf(&src, `{"data": [{"name": "x", "bytes": %d, "input": true}], "tasks": [`, n)
		for i := range n {
			if i > 0 {
				src.WriteString(",\n")
			}
			fmt.Fprintf(&src, `{"kernel": "k", "grid": 1, "uses": [{"data": "x", "offset": %d}]}`, i)
		}
		_, err := Decode([]byte(src.String()+"]}"), nil)
		return err
	}
	if err := pieces(1000); err != nil {
		t.Error(err)
	}
	if err := pieces(9000); !errors.Is(err, ErrSize) || !strings.Contains(err.Error(), "have 40504500 pieces of data, more than the limit of 33554432") {
		t.Errorf("9000 tasks that use half of 9000 pieces each: %v", err)
	}
}

// roundTrip checks that g comes back from its JSON form the same in every part,
// its flow included.
func roundTrip(t interface{ Fatalf(string, ...any) }, g *Graph) {
	src, err := Encode(g)
	if err != nil {
		t.Fatalf("%v\n%s", err, describe(g))
	}
	back, err := Decode(src, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	if !reflect.DeepEqual(g, back) {
		t.Fatalf("differs after a round trip through\n%s", src)
	}
	again, err := Encode(back)
	if err != nil || !bytes.Equal(src, again) {
		t.Fatalf("encodes differently the second time: %v\n%s\n%s", err, src, again)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		number := rapid.Int64Range(0, 1<<62)
		float := rapid.Float64Range(0, 1e300)
		text := rapid.SampledFrom([]string{"", "", "same", "<a & b>", "line\nbreak", "0", "ü\u2028"})
		for i := range p.tasks {
			task := &p.tasks[i]
			dims := func(most uint32) [3]uint32 {
				d := rapid.SampledFrom([]uint32{0, 1, 1, 7, most})
				return [3]uint32{d.Draw(t, "x"), d.Draw(t, "y"), d.Draw(t, "z")}
			}
			task.Name = text.Draw(t, "name")
			task.Steps = nil
			for range rapid.IntRange(1, 3).Draw(t, "steps") {
				task.Steps = append(task.Steps, Step{Kernel: rapid.SampledFrom([]*Kernel{testKernel, testCombine}).Draw(t, "kernel"),
					Launch: Launch{Grid: dims(1 << 20), Block: dims(1<<32 - 1), Cluster: dims(1<<32 - 1),
						SharedBytes: rapid.IntRange(0, 1e6).Draw(t, "shared"), Cooperative: rapid.Bool().Draw(t, "cooperative")}})
				for d, n := range task.Steps[len(task.Steps)-1].Launch.Grid { // 0 counts as 1, which is written
					task.Steps[len(task.Steps)-1].Launch.Grid[d] = max(n, 1)
				}
				if params := rapid.SliceOf(rapid.Byte()).Draw(t, "params"); len(params) > 0 {
					task.Steps[len(task.Steps)-1].Params = params
				}
			}
			task.Work = Work{float.Draw(t, "ops"), float.Draw(t, "bytes"), Unit(rapid.IntRange(0, NumUnits-1).Draw(t, "unit"))}
			task.Workspace = number.Draw(t, "workspace")
			task.Priority = rapid.Int().Draw(t, "priority")
			task.Timeout = time.Duration(number.Draw(t, "timeout"))
			task.Retries = rapid.Int().Draw(t, "retries")
			task.On.Hint = text.Draw(t, "hint")
			if only := text.Draw(t, "only"); only != "" {
				task.On.Only = []string{only, ""}
			}
			task.Gang = rapid.IntRange(0, 9).Draw(t, "gang")
			for s := range task.Steps {
				if task.Gang < 2 && len(task.Uses) > 0 && rapid.Bool().Draw(t, "own arguments") {
					task.Steps[s].Args = append([]int{}, rapid.SliceOfN(rapid.IntRange(0, len(task.Uses)-1), 0, 3).Draw(t, "args")...)
				}
			}
			for u := range task.Uses {
				task.Uses[u].Rank = int16(rapid.IntRange(0, max(task.Gang, 1)-1).Draw(t, "rank"))
			}
		}
		roundTrip(t, p.build(t))
	})
}

func TestRoundTripOfNothing(t *testing.T) {
	g, err := Decode([]byte("{}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, g)
}

// FuzzDecode looks for a file that makes Decode panic, that it refuses without a
// line, or that it accepts as a graph that does not survive a round trip.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(kitchenSink))
	f.Add([]byte(`{"tasks": [{"kernel": "k", "grid": 1, "after": []}, {"name": "a", "kernel": "k", "after": [0], "grid": 2}, {"kernel": "k", "grid": [1, 2], "after": ["a"]}]}`))
	f.Add([]byte(`{"data": [{"name": "s", "bytes": 9, "input": true, "combine": "c"}], "tasks": [
		{"kernel": "k", "grid": 4, "uses": [{"data": "s", "bytes": 4, "access": "reduce"}, {"data": "s", "offset": 4, "access": "reduce"}]},
		{"kernel": "k", "grid": 5, "uses": [{"data": "s", "offset": 2, "bytes": 5, "access": "reduce"}]}]}`))
	f.Add([]byte("{\"data\": [\n{\"name\": \"\\u00fc\", \"bytes\": \"1.5 kib\"}],\n\"kernels\": null}"))
	f.Fuzz(func(t *testing.T, src []byte) {
		g, err := Decode(src, nil)
		if err == nil {
			roundTrip(t, g)
			return
		}
		var s *SyntaxError
		if !errors.As(err, &s) || s.Line < 1 || s.Line > 1+bytes.Count(src, []byte("\n")) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("a poor error: %v", err)
		}
	})
}

// Dimensions beside one that is taken whole keep their numbers.
func TestPerDims(t *testing.T) {
	for want, d := range map[string][3]uint32{`["all",3,5]`: {All, 3, 5}, `[2,"all",5]`: {2, All, 5}, `[2,3,"all"]`: {2, 3, All}} {
		if got, err := json.Marshal(perDims(d)); err != nil || string(got) != want {
			t.Errorf("%v is written %s, %v; want %s", d, got, err, want)
		}
	}
}

// A step without a launch computes one item, and is written so: a file states its grid.
func TestEncodeNoGrid(t *testing.T) {
	var b Builder
	b.Add(Task{Steps: []Step{{Kernel: goKernel("k")}, {Kernel: goKernel("k"), Launch: Launch{Grid: [3]uint32{3, 0, 2}}}}})
	b.Add(Task{Steps: []Step{{Kernel: &Kernel{Name: "a", Impls: []Impl{{Dialect: Abstract}}}}}})
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	src, err := Encode(g)
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(src, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	want := [][3]uint32{{1, 1, 1}, {3, 1, 2}, {}}
	for i, s := range append(slices.Clone(back.Task(0).Steps), back.Task(1).Steps...) {
		if s.Launch.Grid != want[i] {
			t.Errorf("step %d has the grid %v, want %v", i, s.Launch.Grid, want[i])
		}
	}
}
