package fold

import (
	"encoding/binary"
	"io"
)

// File is the part of *os.File that a [Trajectory] needs.
type File interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
}

// Trajectory writes the trajectory of a run to a file while the run is computed, in the
// formats of [Run.Write] and with the same bytes in the end. Each frame is whole in the file
// before the next one is begun, and only then does the header of a DCD file count it: a file
// that is cut short at any byte has all frames before that byte. Most readers go by the
// length of such a file and read them all; a reader that goes by the header reads the frames
// that were whole when the header was last written.
//
// A file that has frames of this run already keeps them: Trajectory compares the frames to
// write with the file's, and writes the file anew from the first difference on. So a resumed
// run appends to its file, without a frame twice or missing, wherever the file was cut. A
// Trajectory is for one goroutine at a time.
type Trajectory struct {
	run    *Run
	format string
	e      encoder
	file   File
	to     io.Writer // nil for a file
	err    error     // of to, of which nothing can be taken back

	begun bool
	whole int   // frames that are written
	at    int64 // behind the last of them
	same  bool  // as far as is known the file goes on with what is to be written
	says  int   // frames that the header counts
	ended bool
}

// NewTrajectory returns one for a file that is open for reading and writing. It does not touch it before the first
// frame is written. It errs for a format that is none or has no place for the run, as [Run.Writable] does.
func NewTrajectory(r *Run, f File, format string) (*Trajectory, error) {
	t := &Trajectory{file: f}
	if err := r.Writable(format); err != nil {
		return nil, err
	}
	return t, t.of(r, format)
}

// NewStream is NewTrajectory for what can only be appended to, as a pipe. The header counts all frames of the run.
func NewStream(r *Run, w io.Writer, format string) (*Trajectory, error) {
	t := &Trajectory{to: w}
	if err := r.Writable(format); err != nil {
		return nil, err
	}
	return t, t.of(r, format)
}

func (t *Trajectory) of(r *Run, format string) (err error) {
	t.run, t.format = r, format
	t.e, err = r.encoder(format)
	return err
}

// Frames is the number of frames that the file has, as far as they were written here.
func (t *Trajectory) Frames() int { return t.whole }

// Write has the file hold the first frames of the run, which have been computed. With the last one it ends the
// file. After an error the file has whole frames, and the next call tries again.
func (t *Trajectory) Write(frames int) error {
	if t.err != nil {
		return t.err
	}
	if !t.begun && frames > 0 {
		if err := t.begin(); err != nil {
			return t.failed(err)
		}
	}
	for t.whole < frames {
		b, err := t.e.frame(t.whole)
		if err == nil {
			err = t.put(b)
		}
		if err != nil {
			return t.failed(err)
		}
		t.whole, t.at = t.whole+1, t.at+int64(len(b))
		if err := t.count(); err != nil {
			return t.failed(err)
		}
	}
	if t.whole == t.run.Rounds() && !t.ended {
		if err := t.end(); err != nil {
			return t.failed(err)
		}
		t.ended = true
	}
	return nil
}

// failed leaves whole frames in the file.
func (t *Trajectory) failed(err error) error {
	if t.to != nil {
		t.err = err
	} else if !t.same {
		_ = t.file.Truncate(t.at) // the first error says more
	}
	return err
}

// begin writes the header, which counts no frames yet, or finds one.
func (t *Trajectory) begin() error {
	var header []byte
	if t.to != nil {
		header = t.e.header(t.run.Rounds())
	} else {
		there := make([]byte, dcdCount+4)
		if n, _ := t.file.ReadAt(there, 0); n == len(there) {
			t.says = int(int32(binary.LittleEndian.Uint32(there[dcdCount:])))
		}
		header = t.e.header(t.says)
		if t.same = t.has(header); !t.same {
			t.says = 0
			header = t.e.header(0)
			if err := t.file.Truncate(0); err != nil {
				return err
			}
		}
	}
	if err := t.put(header); err != nil {
		return err
	}
	t.begun, t.at = true, int64(len(header))
	return nil
}

// put writes what comes next, unless it is there.
func (t *Trajectory) put(b []byte) error {
	if t.to != nil {
		_, err := t.to.Write(b)
		return err
	}
	if t.same && t.has(b) {
		return nil
	}
	if t.same {
		t.same = false
		if err := t.count(); err != nil {
			return err
		}
		if err := t.file.Truncate(t.at); err != nil {
			return err
		}
	}
	_, err := t.file.WriteAt(b, t.at)
	return err
}

// has reports whether the file goes on with some bytes.
func (t *Trajectory) has(b []byte) bool {
	there := make([]byte, len(b))
	n, _ := t.file.ReadAt(there, t.at)
	return n == len(b) && string(there) == string(b)
}

// count has the header of a file count the frames. Where further ones of the same run may be there it is not made to
// count fewer.
func (t *Trajectory) count() error {
	if t.to != nil || t.format != "dcd" || t.whole == t.says || t.same && t.whole < t.says {
		return nil
	}
	if _, err := t.file.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(t.whole)), dcdCount); err != nil {
		return err
	}
	t.says = t.whole
	return nil
}

// end writes what comes after the last frame, and nothing else is behind it.
func (t *Trajectory) end() error {
	last := t.e.end()
	if err := t.put(last); err != nil || t.to != nil {
		return err
	}
	t.same = false
	if err := t.file.Truncate(t.at + int64(len(last))); err != nil {
		return err
	}
	return t.count()
}
