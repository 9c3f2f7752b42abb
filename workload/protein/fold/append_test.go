package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/weft-run/weft/internal/workloadtest"
)

// memoryFile is a file in memory that has room for some bytes.
type memoryFile struct {
	b    []byte
	room int
}

func (f *memoryFile) ReadAt(p []byte, at int64) (int, error) {
	if at >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.b[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes as much as there is room for, as a file on a full disk does.
func (f *memoryFile) WriteAt(p []byte, at int64) (int, error) {
	n := min(len(p), max(f.room-int(at), 0))
	if end := int(at) + n; end > len(f.b) {
		f.b = append(f.b, make([]byte, end-len(f.b))...)
	}
	copy(f.b[at:], p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func (f *memoryFile) Truncate(size int64) error {
	f.b = append(f.b[:min(int(size), len(f.b))], make([]byte, max(0, int(size)-len(f.b)))...)
	return nil
}

// folded is a run that has been computed, and its trajectory in a format by Write with where each frame ends.
func folded(t *testing.T, format string) (r *Run, whole []byte, ends []int) {
	t.Helper()
	r = newSmall(t, small)
	do(t, workloadtest.Open(t, 1, Funcs()), r)
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	e, err := r.encoder(format)
	if err != nil {
		t.Fatal(err)
	}
	at := len(e.header(0))
	ends = append(ends, at)
	for i := range r.Rounds() {
		frame, err := e.frame(i)
		if err != nil {
			t.Fatal(err)
		}
		at += len(frame)
		ends = append(ends, at)
	}
	return r, b.Bytes(), ends
}

// counted is the frames that the header of a file in the DCD format says.
func counted(b []byte) int { return int(int32(binary.LittleEndian.Uint32(b[dcdCount:]))) }

// A file has every frame as soon as it is written, whatever was in it before, and the bytes of Write in the end. One
// that was cut at any byte, with any count in its header, has all frames before that, and goes on from there without
// a frame twice or missing. It is never shorter than the frames that it had of the run.
func TestTrajectoryCut(t *testing.T) {
	for _, format := range []string{"pdb", "dcd", "xtc"} {
		r, whole, ends := folded(t, format)
		random := rand.New(rand.NewPCG(3, 4))
		cuts := []int{0, 1, len(whole) - 1, len(whole)}
		for _, end := range ends {
			cuts = append(cuts, end-1, end, end+1)
		}
		for range 60 {
			cuts = append(cuts, random.IntN(len(whole)+1))
		}
		for _, cut := range cuts {
			cut = min(max(cut, 0), len(whole))
			f := &memoryFile{b: bytes.Clone(whole[:cut]), room: 1 << 30}
			if format == "dcd" && cut >= dcdCount+4 {
				binary.LittleEndian.PutUint32(f.b[dcdCount:], uint32(random.IntN(r.Rounds()+1)))
			}
			if random.IntN(3) == 0 {
				f.b = append(f.b, "something else"...)
			}
			had, _ := slices.BinarySearch(ends, cut+1) // frames, and one for the header
			tr, err := NewTrajectory(r, f, format)
			if err != nil {
				t.Fatal(err)
			}
			for from := random.IntN(3); from <= r.Rounds(); from += 1 + random.IntN(3) {
				if err := tr.Write(from); err != nil {
					t.Fatal(err)
				}
				if from == 0 {
					continue
				}
				// What is there are whole frames, and no fewer than before.
				least := ends[max(from, had-1)]
				if len(f.b) < least || !bytes.Equal(f.b[dcdCount+4:least], whole[dcdCount+4:least]) {
					t.Fatalf("%s cut at %d: after %d frames %d bytes, want %d", format, cut, from, len(f.b), least)
				}
				if n := counted(f.b); format == "dcd" && (n < from || n > r.Rounds()) {
					t.Fatalf("cut at %d: after %d frames the header says %d", cut, from, n)
				}
			}
			if err := tr.Write(r.Rounds()); err != nil || !bytes.Equal(f.b, whole) || tr.Frames() != r.Rounds() {
				t.Fatalf("%s cut at %d: %d bytes in the end, want %d, %v", format, cut, len(f.b), len(whole), err)
			}
		}
	}
}

// On a full disk a file has whole frames, and the others once there is room again.
func TestTrajectoryFull(t *testing.T) {
	for _, format := range []string{"pdb", "dcd", "xtc"} {
		r, whole, ends := folded(t, format)
		for room := 0; room < len(whole); room += 1 + len(whole)/97 {
			f := &memoryFile{b: []byte("an older result"), room: room}
			tr, err := NewTrajectory(r, f, format)
			if err != nil {
				t.Fatal(err)
			}
			for n := range r.Rounds() + 1 {
				if err := tr.Write(n); err != nil && !errors.Is(err, syscall.ENOSPC) {
					t.Fatal(err)
				}
			}
			if tr.Frames() == r.Rounds() && len(f.b) == len(whole) {
				t.Fatalf("%s: all frames have %d bytes", format, room)
			}
			if end := ends[tr.Frames()]; len(f.b) != end && tr.Frames() > 0 || format == "dcd" && len(f.b) > 12 && counted(f.b) != tr.Frames() {
				t.Errorf("%s: in %d bytes there are %d with %d frames, which end at %d", format, room, len(f.b), tr.Frames(), end)
			}
			f.room = 1 << 30
			if err := tr.Write(r.Rounds()); err != nil || !bytes.Equal(f.b, whole) {
				t.Errorf("%s: with room again %d bytes, want %d, %v", format, len(f.b), len(whole), err)
			}
		}
	}
}

// A stream has the same bytes, and an error of it is there to stay.
func TestTrajectoryStream(t *testing.T) {
	for _, format := range []string{"pdb", "dcd", "xtc"} {
		r, whole, _ := folded(t, format)
		var b bytes.Buffer
		tr, err := NewStream(r, &b, format)
		if err != nil {
			t.Fatal(err)
		}
		for n := range r.Rounds() + 1 {
			if err := tr.Write(n); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(b.Bytes(), whole) {
			t.Errorf("%s: other bytes", format)
		}
		out, in := io.Pipe()
		out.Close()
		if tr, err = NewStream(r, in, format); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := tr.Write(1); !errors.Is(err, io.ErrClosedPipe) || tr.Frames() != 0 {
				t.Errorf("%s: %v", format, err)
			}
		}
	}
}
