package proc

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/graph"
	"github.com/weft-run/weft/machine"
)

// FuzzCompletion reads records as a worker might write them: each is refused, or is
// one that reads the same when it is written again.
func FuzzCompletion(f *testing.F) {
	var w writer
	for _, c := range []driver.Completion{
		{Lane: 1, Seq: 2, Start: 3, End: 4},
		{Lane: driver.NoLane, Err: &remoteError{"gone", classes[lost]}},
		{Lane: 7, Seq: 1 << 31, Start: -1, End: time.Hour, Err: driver.ErrDependency},
	} {
		w.completion(&c)
		f.Add(bytes.Clone(w.b))
	}
	f.Add([]byte{})
	f.Add([]byte{byte(hasEnded)})
	f.Fuzz(func(t *testing.T, rec []byte) {
		e, err := readCompletion(rec)
		if err != nil {
			if !errors.Is(err, errGarbage) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if (e.err == nil) != (e.class == fine) {
			t.Fatalf("class %d with error %v", e.class, e.err)
		}
		var w writer
		w.completion(&driver.Completion{Lane: e.lane, Seq: e.seq, Start: e.start, End: e.end, Err: e.err})
		again, err := readCompletion(w.b)
		if err != nil {
			t.Fatalf("%x was read, and refused when written again: %v", rec, err)
		}
		text := func(err error) string {
			if err == nil {
				return ""
			}
			return err.Error()
		}
		if again.lane != e.lane || again.seq != e.seq || again.start != e.start || again.end != e.end || again.class != e.class || text(again.err) != text(e.err) {
			t.Fatalf("%+v became %+v", e, again)
		}
	})
}

// FuzzMessage reads control messages as a child might send them.
func FuzzMessage(f *testing.F) {
	for _, m := range []message{
		{Kind: answer, ID: 7, Found: []found{{Info: machine.Device{Name: "x", Lanes: 2, MemBytes: 1 << 30}, Peak: 1e12}}},
		{Kind: tellLog, Text: "hello", Attrs: []string{"a", "b", "odd"}},
		{Kind: answer, Class: lost, Err: "gone", Tele: &driver.Telemetry{Util: 1}},
		{Kind: answer, Tuned: []driver.Tuned{{Kernel: "k", Class: 13}}, From: 4, Bytes: 5, Slab: 6},
	} {
		b, err := json.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"k":"answer","class":255,"bytes":-1}`))
	f.Add([]byte(`{"k":"answer","found":[{"info":{"lanes":1000000000}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			if !errors.Is(err, errGarbage) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		if len(m.Attrs)%2 != 0 || len(m.Attrs) > maxAttrs || len(m.Err) > maxText || len(m.Found) > maxFound || m.Bytes < 0 || m.From < 0 {
			t.Fatalf("taken: %+v", m)
		}
		for i := range m.Found {
			if n := m.Found[i].Info.Lanes; n < 0 || n > maxLanes {
				t.Fatalf("a device of %d lanes", n)
			}
		}
		_ = errorOf(m.Class, m.Err)
	})
}

// FuzzRing reads a ring whose memory another process has filled as it liked: what
// comes out are records within bounds, and there is an end to them.
func FuzzRing(f *testing.F) {
	mem := make([]byte, ringMemory/2)
	honest := ringOn(mem)
	for _, rec := range []string{"a record", "another", strings.Repeat("long ", 100)} {
		if ok, err := honest.put([]byte(rec)); !ok || err != nil {
			f.Fatal(ok, err)
		}
	}
	f.Add(uint32(0), uint32(0), honest.at, bytes.Clone(honest.buf[:1024]))
	f.Add(uint32(ringBytes-16), uint32(0), uint32(ringBytes+16), []byte{})
	f.Add(uint32(0), uint32(0), uint32(8), header(0, 0))                       // a record of nothing
	f.Add(uint32(8), uint32(0), uint32(64), header(skipBit, 0))                // a skip that is too short
	f.Add(uint32(0), uint32(0), uint32(8), header(skipBit|(ringBytes-8), 0))   // and one of everything
	f.Add(uint32(0), uint32(3), uint32(ringBytes), header(maxRecord+8, 3))     // a record that is too long
	f.Add(uint32(16), uint32(0), uint32(ringBytes), header(ringBytes-8, 0))    // one beyond the end
	f.Add(uint32(ringBytes), uint32(9), uint32(ringBytes+256), header(200, 9)) // one that is well
	f.Fuzz(func(t *testing.T, at, serial, tail uint32, content []byte) {
		clear(mem)
		r := ringOn(mem)
		r.at, r.serial = at&^7, serial // the reader's own, which only it writes
		r.h.tail.Store(tail)
		first := r.at % ringBytes
		copy(r.buf[first:], content)
		begin := r.at
		for n := 0; ; n++ {
			rec, err := r.get()
			if err != nil {
				if !errors.Is(err, errGarbage) {
					t.Fatalf("refused with %v", err)
				}
				return
			}
			if rec == nil {
				return
			}
			if len(rec) == 0 || len(rec) > maxRecord {
				t.Fatalf("a record of %d bytes", len(rec))
			}
			r.next(uint32(len(rec)))
			if r.at-begin > ringBytes {
				t.Fatalf("%d bytes were read from a ring of %d", r.at-begin, ringBytes)
			}
			if n > ringBytes/headBytes {
				t.Fatal("there is no end to it")
			}
		}
	})
}

// header is what stands before a record.
func header(n, serial uint32) []byte {
	b := binary.LittleEndian.AppendUint32(nil, n)
	return binary.LittleEndian.AppendUint32(b, check(n, serial))
}

// FuzzCommand gives a worker records that its parent might have garbled.
func FuzzCommand(f *testing.F) {
	var w writer
	add := func(fields ...int64) {
		w.begin(verb(fields[0]))
		for _, x := range fields[1:] {
			w.u32(uint32(x))
		}
		f.Add(bytes.Clone(w.b))
	}
	for v := range int64(hasEnded) + 2 {
		add(v)
		add(v, 1, 2, 0, 16, 0, -1, 3, 0, 0, 0, 0, 4, 0, 8, 0, 0, 0, 0, 0)
		add(v, 1, 16, 0, 4096, 0)
	}
	w.begin(doLaunch)
	w.u32(1)
	w.u32(1)
	w.waits([]driver.Wait{{Lane: 2, Seq: 1}})
	w.u32(0)
	w.flag(false)
	w.flag(true)
	var steps writer
	steps.steps(&graph.Task{
		Steps: []graph.Step{{Kernel: &graph.Kernel{}, Params: []byte{1}, Args: []int{0}}}, Uses: []graph.Use{{Access: graph.ReadWrite}},
	}, func(*graph.Kernel) uint32 { return 1 })
	w.bytes(steps.b)
	f.Add(bytes.Clone(w.b))
	f.Fuzz(func(t *testing.T, rec []byte) {
		w := &worker{
			dev: silent{}, board: driver.NewBoard(4), mem: make([]byte, 1<<16), kernels: map[uint32]*graph.Kernel{1: {Name: "k"}},
			tasks: make(map[string]*graph.Task), got: make([]driver.Completion, 4), commands: ringOn(make([]byte, ringMemory/2)),
		}
		if err := w.command(rec); err != nil {
			if !errors.Is(err, errGarbage) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		for i := range w.batch {
			op := &w.batch[i]
			if op.Kind >= driver.Copy && (op.Lane < 0 || int(op.Lane) >= w.board.Lanes()) {
				t.Fatalf("an operation on lane %d of %d", op.Lane, w.board.Lanes())
			}
			if op.Kind == driver.Launch && op.Task == nil {
				t.Fatal("a launch of nothing")
			}
		}
		for _, s := range w.spans {
			if s.Off < 0 || s.Len <= 0 || s.Off+s.Len > int64(len(w.mem)) {
				t.Fatalf("a segment at %d of %d bytes", s.Off, s.Len)
			}
		}
	})
}

// silent is a device that does nothing.
type silent struct{ driver.Device }

func (silent) Submit([]driver.Op) error            { return nil }
func (silent) Completions([]driver.Completion) int { return 0 }
func (silent) Close() error                        { return nil }
