package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// state is what the process of a test computes: some data, of which each step changes a
// part.
type state struct {
	step int64
	data []Source
}

func newState() *state {
	s := &state{}
	for i, size := range []int64{3*BlockBytes + 5000, 17, BlockBytes} {
		n := NumBlocks(size)
		src := Source{fmt.Sprint("d", i), make([]byte, size), make([]bool, n), make([]bool, n)}
		for b := range n {
			src.Live[b] = true
		}
		s.data = append(s.data, src)
	}
	return s
}

// advance makes the next step's state from its number alone. All blocks carry the step at
// which they last changed.
func (s *state) advance() {
	s.step++
	r := rand.New(rand.NewPCG(uint64(s.step), 7))
	for i := range s.data {
		d := &s.data[i]
		for b := range d.Live {
			if r.IntN(2) == 0 {
				block := d.Mem[int64(b)*BlockBytes:][:BlockSize(int64(len(d.Mem)), b)]
				for k := 0; k < len(block); k += 997 {
					block[k] = byte(r.Uint32())
				}
				d.Dirty[b] = true
			}
		}
	}
}

// at is the state after some steps.
func at(step int64) *state {
	s := newState()
	for range step {
		s.advance()
	}
	return s
}

func (s *state) meta() Meta {
	return Meta{Name: "test", Params: []Param{{"a", "1"}}, Done: s.step, Total: 1000, Unix: 5}
}

// restore returns the state in a folder and a store to go on with.
func restore(fs FS) (*state, *Store, []*Refused, error) {
	st, err := Open(fs, "folder")
	if err != nil {
		return nil, nil, nil, err
	}
	s := newState()
	m, refused, err := st.Restore(func(*Manifest) (func(d *Data) []byte, error) {
		return func(d *Data) []byte {
			i := slices.IndexFunc(s.data, func(src Source) bool { return src.Name == d.Name })
			return s.data[i].Mem
		}, nil
	})
	if err != nil {
		return nil, st, refused, err
	}
	s.step = m.Done
	return s, st, refused, nil
}

func (s *state) equal(t *testing.T, want *state) {
	t.Helper()
	for i := range s.data {
		if !bytes.Equal(s.data[i].Mem, want.data[i].Mem) {
			t.Fatalf("data %d of step %d is not what was computed", i, s.step)
		}
	}
}

// A crash at any operation leaves a folder from which the newest checkpoint that was
// complete, or the one that was being written, is read back; and so on over many crashes.
func TestCrash(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	states := make([]*state, 40)
	for i := range states {
		states[i] = at(int64(i))
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		d := newDisk(seed)
		last := int64(0) // the last step whose checkpoint was complete
		for life := 0; last < 30 && life < 200; life++ {
			s, st, _, err := restore(d)
			switch {
			case err != nil && (last > 0 || !errors.Is(err, ErrNone)):
				t.Fatalf("seed %d, life %d: step %d was saved: %v", seed, life, last, err)
			case err != nil:
				s = newState()
			case s.step != last && s.step != last+1:
				t.Fatalf("seed %d, life %d: step %d was read, and %d was saved", seed, life, s.step, last)
			default:
				s.equal(t, states[s.step])
				last = s.step
			}
			d.ops, d.crashAt = 0, r.IntN(40)
			if r.IntN(4) == 0 {
				d.failAt = r.IntN(30)
			}
			for !d.dead && last < 30 {
				s.advance()
				_, err := st.Write(s.meta(), s.data)
				switch {
				case err == nil:
					last = s.step
				case errors.Is(err, errFull):
					if !d.dead {
						if again, _, _, err := restore(d); last > 0 && (err != nil || again.step != last) {
							t.Fatalf("seed %d: after a full disk: %v; want step %d", seed, err, last)
						}
					}
				case !errors.Is(err, errCrashed):
					t.Fatal(err)
				}
				if err != nil {
					break
				}
			}
			d = d.restart()
		}
		if last < 30 {
			t.Errorf("seed %d: only step %d was reached", seed, last)
		}
	}
}

// After every operation of one checkpoint, each in its own world, the folder has that
// checkpoint or the one before.
func TestEveryCrash(t *testing.T) {
	for k := 0; ; k++ {
		for seed := range uint64(4) {
			d := newDisk(seed)
			st, err := Open(d, "folder")
			if err != nil {
				t.Fatal(err)
			}
			s := newState()
			for range 3 {
				s.advance()
				if _, err := st.Write(s.meta(), s.data); err != nil {
					t.Fatal(err)
				}
			}
			s.advance()
			d.ops, d.crashAt = 0, k
			_, err = st.Write(s.meta(), s.data)
			if !d.dead {
				if k < 8 {
					t.Fatalf("a checkpoint took %d operations", k)
				}
				return
			}
			got, _, refused, rerr := restore(d.restart())
			switch {
			case rerr != nil || len(refused) > 0: // a manifest that has its name is whole
				t.Fatalf("crash at %d, seed %d: %v; refused %v", k, seed, rerr, refused)
			case err == nil && got.step != 4, got.step != 3 && got.step != 4:
				t.Fatalf("crash at %d, seed %d: step %d, Write said %v", k, seed, got.step, err)
			}
			got.equal(t, at(got.step))
		}
	}
}

// A write that fails leaves the checkpoint before and no files of its own, and what it did
// not write is written by the next one.
func TestFull(t *testing.T) {
	for k := 0; ; k++ {
		d := newDisk(1)
		st, err := Open(d, "folder")
		if err != nil {
			t.Fatal(err)
		}
		s := newState()
		s.advance()
		if _, err := st.Write(s.meta(), s.data); err != nil {
			t.Fatal(err)
		}
		s.advance()
		d.ops, d.failAt = 0, k
		_, err = st.Write(s.meta(), s.data)
		if err == nil && d.ops <= k {
			return
		}
		if err != nil {
			if names, _ := d.List(); len(names) != 2 {
				t.Errorf("failure at %d left %q", k, names)
			}
			if got, _, _, err := restore(d); err != nil || got.step != 1 {
				t.Fatalf("failure at %d: %v", k, err)
			}
		}
		s.step++ // changes nothing, so that only what was left is dirty
		if _, err := st.Write(s.meta(), s.data); err != nil {
			t.Fatal(err)
		}
		got, _, _, err := restore(d)
		if err != nil || got.step != 3 {
			t.Fatalf("failure at %d: %v", k, err)
		}
		got.equal(t, at(2))
	}
}

// Only blocks that changed are written, old files go, and little room is wasted.
func TestIncremental(t *testing.T) {
	d := newDisk(1)
	st, err := Open(d, "folder")
	if err != nil {
		t.Fatal(err)
	}
	const blocks, hot = 40, 20 // the hot ones change every time, of the others one does
	src := Source{"x", make([]byte, blocks*BlockBytes), make([]bool, blocks), make([]bool, blocks)}
	for b := range blocks {
		src.Live[b], src.Dirty[b] = true, true
	}
	for i := range 100 {
		w, err := st.Write(Meta{Name: "n", Done: int64(i), Total: 500}, []Source{src})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && w.Bytes < blocks*BlockBytes || i == 1 && w.Bytes > (hot+1)*BlockBytes+AlignBytes+1<<16 {
			t.Errorf("checkpoint %d wrote %d bytes", i, w.Bytes)
		}
		total := 0
		for _, n := range d.names {
			total += len(n.content)
		}
		if total > 4*blocks*BlockBytes+wasteBytes {
			t.Fatalf("after checkpoint %d the folder has %d MiB", i, total>>20)
		}
		src.Dirty[hot+i%(blocks-hot)] = true
		for b := range hot {
			src.Dirty[b] = true
		}
	}
	names, _ := d.List()
	if n := len(slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, manifestPrefix) })); n != 2 {
		t.Errorf("%d manifests are kept, want 2", n)
	}
}

// Checkpoints that each change another block stay in few files, of which one is open at a time
// when they are read.
func TestFiles(t *testing.T) {
	d := newDisk(1)
	st, err := Open(d, "folder")
	if err != nil {
		t.Fatal(err)
	}
	const blocks = maxFiles + 100
	var data []Source // each of one block, which is short
	for i := range blocks {
		data = append(data, Source{fmt.Sprint("d", i), make([]byte, 100), []bool{true}, []bool{false}})
	}
	for i := range blocks {
		data[i].Mem[7], data[i].Dirty[0] = byte(i+1), true
		if _, err := st.Write(Meta{Name: "n", Total: blocks}, data); err != nil {
			t.Fatal(err)
		}
		if n := len(d.names); n > maxFiles+4 { // one more makes it begin anew, and two are kept
			t.Fatalf("%d files after %d checkpoints", n, i+1)
		}
	}
	var got [blocks][100]byte
	_, refused, err := st.Restore(func(*Manifest) (func(*Data) []byte, error) {
		return func(m *Data) []byte {
			return got[slices.IndexFunc(data, func(s Source) bool { return s.Name == m.Name })][:]
		}, nil
	})
	if err != nil || len(refused) > 0 {
		t.Errorf("refused %v, %v", refused, err)
	}
	for i := range got {
		if !bytes.Equal(got[i][:], data[i].Mem) {
			t.Fatalf("data %d is not what was written", i)
		}
	}
	if d.most != 1 {
		t.Errorf("%d files were open at a time", d.most)
	}
}

// Whatever byte of whatever file is changed, or wherever a file ends too early, the newest
// checkpoint is refused with a reason and the one before is used.
func TestDamage(t *testing.T) {
	whole := func() (*disk, []string) {
		d := newDisk(1)
		st, _ := Open(d, "folder")
		s := newState()
		for range 2 {
			s.advance()
			for i := range s.data { // so that both have files of their own
				for b := range s.data[i].Dirty {
					s.data[i].Dirty[b] = true
				}
			}
			if _, err := st.Write(s.meta(), s.data); err != nil {
				t.Fatal(err)
			}
		}
		return d, []string{manifestName(2), dataName(2)}
	}
	r := rand.New(rand.NewPCG(1, 2))
	_, files := whole()
	for _, name := range files {
		for i := range 60 {
			d, _ := whole()
			n := d.names[name]
			what := ""
			switch k := r.IntN(len(n.content)); {
			case i == 0:
				delete(d.names, name)
				what = "was removed"
			case i == 1:
				n.content, what = nil, "was emptied"
			case i%3 == 0:
				n.content, what = n.content[:k], fmt.Sprintf("was cut at %d", k)
			default:
				if name == dataName(2) && i%3 == 1 {
					k = r.IntN(100) // its first line
				}
				n.content[k] ^= 1 << r.IntN(8)
				what = fmt.Sprintf("had byte %d changed", k)
			}
			s, _, refused, err := restore(d)
			if err != nil {
				t.Fatalf("%s %s: %v", name, what, err)
			}
			if s.step == 2 && i > 1 && strings.Contains(what, "byte") && name == dataName(2) {
				s.equal(t, at(2)) // in what pads a block
				continue
			}
			if s.step != 1 || (len(refused) != 1) != (i == 0 && name == manifestName(2)) {
				t.Fatalf("%s %s: step %d, refused %v", name, what, s.step, refused)
			}
			s.equal(t, at(1))
		}
	}
}

// Files of another version, of another folder and of nothing at all are told apart.
func TestReasons(t *testing.T) {
	make1 := func(folder string) *disk {
		d := newDisk(1)
		st, _ := Open(d, folder)
		s := newState()
		s.advance()
		for i := range s.data {
			for b := range s.data[i].Dirty {
				s.data[i].Dirty[b] = true
			}
		}
		if _, err := st.Write(s.meta(), s.data); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := make1("a")
	d.names[dataName(1)] = make1("b").names[dataName(1)]
	if _, _, _, err := restore(d); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "as a data file of this folder") {
		t.Errorf("a foreign data file: %v", err)
	}
	d = make1("a")
	n := d.names[manifestName(1)]
	n.content = bytes.Replace(n.content, []byte("checkpoint 1 "), []byte("checkpoint 2 "), 1)
	if _, _, _, err := restore(d); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	d = make1("a")
	d.names[manifestName(1)].content = []byte("hello")
	if _, _, _, err := restore(d); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "does not begin") {
		t.Errorf("a foreign manifest: %v", err)
	}
	d = make1("a")
	d.names[manifestName(9)] = d.names[manifestName(1)]
	delete(d.names, manifestName(1))
	if _, _, _, err := restore(d); !errors.Is(err, ErrDamaged) {
		t.Errorf("a manifest under another name: %v", err)
	}
	if _, _, _, err := restore(newDisk(1)); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
	}
}

// A folder of many manifests, or of large ones, has few read; and none is written that would
// not be.
func TestManifestLimits(t *testing.T) {
	whole := func(n uint64, params int) []byte {
		body := fmt.Sprintf(`{"seq":%d,"folder":"f","name":"a","params":[%s["k",""]],"done":0,"total":1,"finished":false,"unix_ns":0,"data":[]}`, n, strings.Repeat("[],", params))
		return append(fmt.Appendf(nil, "weft checkpoint 1 %08x %d\n", Sum([]byte(body)), len(body)), body...)
	}
	d := newDisk(1)
	for n := uint64(1); n <= 50; n++ {
		d.names[manifestName(n)] = &inode{content: whole(n, 0)}
	}
	found, refused, err := Manifests(d)
	if err != nil || len(found) != maxManifests || len(refused) > 0 || found[0].Seq != 50 || d.opened != maxManifests {
		t.Errorf("of 50 manifests %d were opened: %v, %v, %v", d.opened, found, refused, err)
	}
	for n := uint64(1); n <= 50; n++ {
		d.names[manifestName(n)].content = []byte("damaged")
	}
	if _, refused, err = Manifests(d); err != nil || len(refused) != maxManifests+1 || !strings.Contains(refused[maxManifests].Error(), "older ones are not read") {
		t.Errorf("of 50 damaged manifests: %v, %v", refused, err)
	}
	d = newDisk(1)
	d.names[manifestName(1)] = &inode{content: whole(1, maxManifest/3)}
	d.names[manifestName(2)] = &inode{content: whole(2, maxParts)}
	if _, refused, err = Manifests(d); err != nil || len(refused) != 2 || !strings.Contains(refused[0].Error(), "a list of more than") || !strings.Contains(refused[1].Error(), "are the most") {
		t.Errorf("large manifests: %v, %v", refused, err)
	}
	d = newDisk(1)
	st, err := Open(d, "f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write(Meta{Name: "n", Params: []Param{{"k", strings.Repeat("x", maxManifest)}}}, newState().data); err == nil || !strings.Contains(err.Error(), "too many parts") {
		t.Errorf("a manifest that could not be read was written: %v", err)
	}
	if len(d.names) > 0 || d.ops > 0 {
		t.Errorf("%d files are left after %d operations", len(d.names), d.ops)
	}
}

// Text that would move the cursor is shown quoted.
func TestShown(t *testing.T) {
	for s, want := range map[string]string{"": "", "a b": "a b", "größe": "größe", "\x1b[31m": `"\x1b[31m"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`, "\u202e": `"\u202e"`, "\u009b1m": `"\u009b1m"`} {
		if got := Shown(s); got != want {
			t.Errorf("%q is shown as %s, want %s", s, got, want)
		}
	}
	have, want := Meta{Params: []Param{{"\x1b[1m", "\a"}, {"k", "v"}}}, Meta{Params: []Param{{"\x1b[1m", "\b"}, {"k", "v"}}}
	for _, why := range []string{Differ(have, want), Differ(have, Meta{}), Differ(Meta{}, want)} {
		if Shown(why) != why {
			t.Errorf("%q", why)
		}
	}
}

func TestDiffer(t *testing.T) {
	a := Meta{Name: "n", Params: []Param{{"k", "1"}, {"l", "2"}}, Total: 3}
	for want, b := range map[string]Meta{
		"":                              {Name: "n", Params: []Param{{"l", "2"}, {"k", "1"}}, Total: 3},
		`it is of "n", and this is "m"`: {Name: "m"},
		"l is 2 there and 5 here":       {Name: "n", Params: []Param{{"k", "1"}, {"l", "5"}}, Total: 3},
		"l is 2 there and nothing here": {Name: "n", Params: []Param{{"k", "1"}}, Total: 3},
		"k is 1 there and 9 here, l is 2 there and nothing here, m is nothing there and 0 here, it has 3 steps, and this has 4":      {Name: "n", Params: []Param{{"k", "9"}, {"m", "0"}}, Total: 4},
		"k is 1 there and 9 here, l is 2 there and 8 here, m is nothing there and 0 here, n is nothing there and 0 here, and 2 more": {Name: "n", Params: []Param{{"k", "9"}, {"l", "8"}, {"m", "0"}, {"n", "0"}, {"o", "0"}}, Total: 4},
		"m is nothing there and 0 here":  {Name: "n", Params: []Param{{"k", "1"}, {"l", "2"}, {"m", "0"}}, Total: 3},
		"it has 3 steps, and this has 4": {Name: "n", Params: a.Params, Total: 4},
	} {
		if got := Differ(a, b); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
}

// FuzzDecode reads any bytes as a manifest, and what it takes is written back as it was
// understood.
func FuzzDecode(f *testing.F) {
	s := at(2)
	m := &Manifest{Meta: s.meta(), Seq: 3, Folder: "f", Data: []Data{{"x", 17, []Block{{1, AlignBytes, 5}}}, {"y", BlockBytes + 1, []Block{{}, {3, 2 * AlignBytes, 1 << 31}}}}}
	src, err := m.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src)
	body := func(s string) []byte {
		return append(fmt.Appendf(nil, "weft checkpoint 1 %08x %d\n", Sum([]byte(s)), len(s)), s...)
	}
	f.Add(body(`{}`))
	f.Add(body(`{"seq":1,"data":[{"name":"x","bytes":-1,"blocks":[]}]}`))
	f.Add(body(`{"seq":1,"data":[{"name":"x","bytes":9223372036854775807,"blocks":[]}]}`))
	f.Add(body(`{"seq":1,"total":1,"data":[{"name":"x","bytes":5,"blocks":[2,1,1]}]}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, src := range [][]byte{src, body(string(src))} {
			m, err := Decode(src)
			if err != nil {
				if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrVersion) {
					t.Fatalf("%v", err)
				}
				continue
			}
			again, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			back, err := Decode(again)
			if err != nil || fmt.Sprint(back) != fmt.Sprint(m) {
				t.Fatalf("%v became %v, %v", m, back, err)
			}
			d := newDisk(1)
			_ = Load(d, m, func(*Data) []byte { return nil }) // there are no files: it must not panic
			_ = m.Live()
		}
	})
}

func BenchmarkSum(b *testing.B) {
	block := make([]byte, BlockBytes)
	b.SetBytes(BlockBytes)
	for b.Loop() {
		Sum(block)
	}
}

// With room for two checkpoints and no third, the older one goes, and all are written.
func TestLittleRoom(t *testing.T) {
	d := newDisk(1)
	st, err := Open(d, "folder")
	if err != nil {
		t.Fatal(err)
	}
	s := newState()
	whole := 0
	for i := range 6 {
		s.advance()
		for k := range s.data {
			for b := range s.data[k].Dirty {
				s.data[k].Dirty[b] = true
			}
		}
		w, err := st.Write(s.meta(), s.data)
		if err != nil {
			t.Fatalf("checkpoint %d: %v", i, err)
		}
		if i == 0 {
			whole = int(w.Bytes)
			d.room = 2*whole + whole/2
		}
		got, _, _, err := restore(d)
		if err != nil || got.step != s.step {
			t.Fatalf("checkpoint %d: %v", i, err)
		}
	}
	d.room = whole + whole/2 // and with room for one, the last stays
	s.advance()
	s.data[0].Dirty[0], s.data[0].Dirty[1], s.data[0].Dirty[2] = true, true, true
	if _, err := st.Write(s.meta(), s.data); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if got, _, _, err := restore(d); err != nil || got.step != 6 {
		t.Fatalf("after a full disk: %v", err)
	}
}

// Where there is room for what changed and none for all of it, what changed is written, though all was to be
// written anew.
func TestNoRoomForAll(t *testing.T) {
	d := newDisk(1)
	st, err := Open(d, "folder")
	if err != nil {
		t.Fatal(err)
	}
	const blocks = 100
	src := Source{"x", make([]byte, blocks*BlockBytes), slices.Repeat([]bool{true}, blocks), make([]bool, blocks)}
	d.room = (3*blocks + 10) * BlockBytes
	for i := range 12 {
		changed := 1
		if i < 3 {
			changed = blocks - i // of each file few blocks are needed in the end
		}
		for b := range changed {
			src.Mem[b*BlockBytes]++
			src.Dirty[b] = true
		}
		if _, err := st.Write(Meta{Name: "n", Done: int64(i), Total: 100}, []Source{src}); err != nil {
			t.Fatalf("checkpoint %d: %v", i, err)
		}
	}
	got := make([]byte, len(src.Mem))
	if m, _, err := st.Restore(func(*Manifest) (func(*Data) []byte, error) {
		return func(*Data) []byte { return got }, nil
	}); err != nil || m.Done != 11 || !bytes.Equal(got, src.Mem) {
		t.Errorf("it holds step %d, %v", m.Done, err)
	}
}

// Blocks whose data file somebody removed are written anew, so that the next checkpoint is whole.
func TestDataRemoved(t *testing.T) {
	d := newDisk(1)
	st, err := Open(d, "folder")
	if err != nil {
		t.Fatal(err)
	}
	src := Source{"x", make([]byte, 3*BlockBytes), []bool{true, true, true}, make([]bool, 3)}
	write := func() {
		t.Helper()
		src.Mem[0]++
		src.Dirty[0] = true
		if _, err := st.Write(Meta{Name: "n"}, []Source{src}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	write()
	if err := d.Remove(dataName(1)); err != nil {
		t.Fatal(err)
	}
	write()
	got := make([]byte, len(src.Mem))
	if _, refused, err := st.Restore(func(*Manifest) (func(*Data) []byte, error) {
		return func(*Data) []byte { return got }, nil
	}); err != nil || len(refused) > 0 || !bytes.Equal(got, src.Mem) {
		t.Errorf("a checkpoint taken after a file was removed: %v, %v", refused, err)
	}
}

// A store that was resumed gives up the older checkpoint for room, as one does that wrote both; if
// there is none it fails, and what it was resumed from stays.
func TestLittleRoomAfterResume(t *testing.T) {
	for _, two := range []bool{true, false} {
		d := newDisk(1)
		st, err := Open(d, "folder")
		if err != nil {
			t.Fatal(err)
		}
		s := newState()
		write := func() (Written, error) {
			s.advance()
			for k := range s.data {
				for b := range s.data[k].Dirty {
					s.data[k].Dirty[b] = true
				}
			}
			return st.Write(s.meta(), s.data)
		}
		w, err := write()
		if err == nil && two {
			_, err = write()
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, st, _, err = restore(d); err != nil {
			t.Fatal(err)
		}
		resumed := s.step
		d.room = int(w.Bytes) * 3 / 2
		if two {
			d.room += int(w.Bytes)
		}
		_, err = write()
		if two != (err == nil) || !two && !errors.Is(err, ErrFull) {
			t.Errorf("with an older one %v: %v", two, err)
		}
		if got, _, _, err := restore(d); err != nil || two != (got.step == s.step) || !two && got.step != resumed {
			t.Errorf("with an older one %v: what is kept cannot be restored, or is not the newest: %v", two, err)
		}
	}
}
