package checkpoint

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
)

// Source is data as it is to be written: its bytes, and for each block whether anything
// needs it (Live) and whether it differs from what the last checkpoint has (Dirty). Write
// clears Dirty when it has succeeded.
type Source struct {
	Name        string
	Mem         []byte
	Live, Dirty []bool
}

// Store is the checkpoints of one folder. It has one owner at a time.
type Store struct {
	fs     FS
	folder string // see Manifest.Folder
	next   uint64
	kept   *Manifest // the newest that was written or restored; nil for none
	older  bool      // the one before it is there too
	full   bool      // the next checkpoint writes all blocks
	pad    []byte
}

// Open opens a folder. folder names it if it has no checkpoint yet.
func Open(fs FS, folder string) (*Store, error) {
	names, err := fs.List()
	if err != nil {
		return nil, err
	}
	s := &Store{fs: fs, folder: folder, next: 1, pad: make([]byte, AlignBytes)}
	for _, name := range names {
		for _, prefix := range []string{manifestPrefix, dataPrefix, tempPrefix} {
			if n, ok := numberOf(name, prefix); ok {
				s.next = max(s.next, n+1) // never a name that was used
				if n == maxNumber {
					return nil, fmt.Errorf("%w: %s has the largest number there is; remove it", ErrDamaged, name)
				}
			}
		}
	}
	return s, nil
}

// maxManifests is the number of manifests of a folder that are read. Two are kept, and while one is
// written three.
const maxManifests = 4

// Manifests reads the newest manifests of a folder, the newest first, and tells of those that
// cannot be read.
func Manifests(fs FS) (found []*Manifest, refused []*Refused, err error) {
	names, err := fs.List()
	if err != nil {
		return nil, nil, err
	}
	var seqs []uint64
	for _, name := range names {
		if n, ok := numberOf(name, manifestPrefix); ok {
			seqs = append(seqs, n)
		}
	}
	slices.SortFunc(seqs, func(a, b uint64) int { return cmp.Compare(b, a) })
	for i, n := range seqs {
		if i == maxManifests {
			if len(found) == 0 {
				refused = append(refused, &Refused{manifestName(n), fmt.Errorf("the %d newest manifests are damaged, and older ones are not read; remove damaged ones to use them", maxManifests)})
			}
			break
		}
		m, err := readManifest(fs, n)
		if err != nil {
			refused = append(refused, &Refused{manifestName(n), err})
			continue
		}
		found = append(found, m)
	}
	return found, refused, nil
}

func readManifest(fs FS, n uint64) (*Manifest, error) {
	f, size, err := fs.Open(manifestName(n))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxManifest {
		return nil, fmt.Errorf("%w: it has %d bytes, and %d are the most", ErrDamaged, size, maxManifest)
	}
	src := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(f, 0, size), src); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	m, err := Decode(src)
	if err == nil && m.Seq != n {
		err = fmt.Errorf("%w: it says that it is checkpoint %d", ErrDamaged, m.Seq)
	}
	return m, err
}

// header is the first AlignBytes bytes of a data file.
func header(folder string, seq uint64) []byte {
	b := make([]byte, AlignBytes)
	copy(b, fmt.Sprintf("weft data %d %s %d\n", Version, folder, seq))
	return b
}

// Load reads the blocks of a checkpoint and checks them, one data file after another. into
// returns the memory for data, of its size; where it returns nil, blocks are checked and
// forgotten.
func Load(fs FS, m *Manifest, into func(d *Data) []byte) error {
	type place struct{ data, block int }
	places := make(map[uint64][]place) // by file
	mems := make([][]byte, len(m.Data))
	for i := range m.Data {
		mems[i] = into(&m.Data[i])
		for k, b := range m.Data[i].Blocks {
			if b.File > 0 {
				places[b.File] = append(places[b.File], place{i, k})
			}
		}
	}
	scratch := make([]byte, BlockBytes)
	load := func(n uint64) error {
		f, err := openData(fs, m.Folder, n)
		if err != nil {
			return err
		}
		defer f.Close()
		for _, p := range places[n] {
			d := &m.Data[p.data]
			at := int64(p.block) * BlockBytes
			dst := scratch[:BlockSize(d.Bytes, p.block)]
			if mem := mems[p.data]; mem != nil {
				dst = mem[at:][:len(dst)]
			}
			if err := d.Blocks[p.block].read(f, dst); err != nil {
				return fmt.Errorf("data %q at byte %d: %w", d.Name, at, err)
			}
		}
		return nil
	}
	for _, n := range slices.Sorted(maps.Keys(places)) {
		if err := load(n); err != nil {
			return fmt.Errorf("%s: %w", dataName(n), err)
		}
	}
	return nil
}

// read reads a block from its file and checks it.
func (b *Block) read(f Reader, dst []byte) error {
	if err := readAt(f, dst, b.At); err != nil {
		return err
	}
	if got := Sum(dst); got != b.Sum {
		return fmt.Errorf("%w: its checksum is %08x, and it should be %08x", ErrDamaged, got, b.Sum)
	}
	return nil
}

// readAt reads some bytes of a file, which must be there.
func readAt(f Reader, dst []byte, at int64) error {
	_, err := f.ReadAt(dst, at)
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the file is cut short: it should have %d bytes at %d", ErrDamaged, len(dst), at)
	case err != nil:
		return fmt.Errorf("%w: %d bytes at %d of the file: %w", ErrDamaged, len(dst), at, err)
	}
	return nil
}

// openData opens a data file and looks whose it is.
func openData(fs FS, folder string, n uint64) (Reader, error) {
	f, _, err := fs.Open(dataName(n))
	if err != nil {
		return nil, err
	}
	head := make([]byte, AlignBytes)
	if err = readAt(f, head, 0); err == nil && !bytes.Equal(head, header(folder, n)) {
		err = fmt.Errorf("%w: it does not begin as a data file of this folder", ErrDamaged)
	}
	if err != nil {
		_ = f.Close() // the first error says more
		return nil, err
	}
	return f, nil
}

// Restore loads the newest checkpoint that is whole. accept says where its data goes; an
// error of accept ends the search, for it says that the checkpoint is not of this
// computation. Checkpoints that are damaged are passed over and returned. With none left
// the error wraps ErrNone and all reasons.
func (s *Store) Restore(accept func(m *Manifest) (into func(d *Data) []byte, err error)) (*Manifest, []*Refused, error) {
	found, refused, err := Manifests(s.fs)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range found {
		into, err := accept(m)
		if err != nil {
			return nil, refused, err
		}
		if err := Load(s.fs, m, into); err != nil {
			refused = append(refused, &Refused{manifestName(m.Seq), err})
			continue
		}
		s.kept, s.folder, s.older = m, m.Folder, true // if it is not there, nothing is given up
		return m, refused, nil
	}
	err = ErrNone
	for i, r := range refused {
		sep := "; "
		if i == 0 {
			sep = " can be used: "
		}
		err = fmt.Errorf("%w%s%w", err, sep, r)
	}
	return nil, refused, err
}

// Written is the cost of a checkpoint.
type Written struct {
	Seq   uint64
	Bytes int64 // written to files
	Live  int64 // bytes of the state, written now or before
}

// Write writes a checkpoint: the blocks that are live and dirty, or live and not in the
// checkpoint before. Where it finds no room it gives up the older of two checkpoints and tries
// again. Where all of the state was to be written anew and has no room, it writes what changed. If it fails the
// checkpoint before stays as it was, and what was written is removed as far as that can be done.
func (s *Store) Write(meta Meta, data []Source) (Written, error) {
	lost := s.lost()
	s.full = s.full || lost
	w, err := s.write(meta, data)
	if errors.Is(err, ErrFull) && s.older {
		s.sweep(s.kept, nil)
		s.older = false
		w, err = s.write(meta, data)
	}
	if errors.Is(err, ErrFull) && s.full && !lost { // there may be room for what changed
		s.full = false
		if w, err = s.write(meta, data); err != nil {
			s.full = true
		}
	}
	return w, err
}

// lost reports whether a data file that the last checkpoint needs is gone: somebody removed it, as programs
// do that clear folders of old files. The next checkpoint then cannot refer to it.
func (s *Store) lost() bool {
	if s.kept == nil {
		return false
	}
	names, err := s.fs.List()
	if err != nil {
		return false // the checkpoint will say why
	}
	for n := range s.kept.files() {
		if !slices.Contains(names, dataName(n)) {
			return true
		}
	}
	return false
}

func (s *Store) write(meta Meta, data []Source) (w Written, err error) {
	m := &Manifest{Meta: meta, Seq: s.next, Folder: s.folder}
	s.next++
	bytes, at := s.lay(m, data)
	if _, err := m.Encode(); err != nil {
		return Written{}, err // before all of its data is written
	}
	w = Written{Seq: m.Seq}
	made := []string{}
	defer func() {
		for _, name := range slices.Backward(made) { // a manifest before what it needs
			if err != nil {
				_ = s.fs.Remove(name) // the first error says more
			}
		}
	}()
	if bytes > AlignBytes {
		made = append(made, dataName(m.Seq))
		if err := s.writeData(m, data, at, bytes); err != nil {
			return w, err
		}
		w.Bytes = bytes
	}
	src, err := m.Encode()
	if err != nil {
		return w, err
	}
	temp := tempName(m.Seq)
	made = append(made, temp)
	if err := s.writeFile(temp, 0, func(f File) error { _, err := f.Write(src); return err }); err != nil {
		return w, err
	}
	if err := s.fs.Sync(); err != nil {
		return w, err
	}
	if err := s.fs.Rename(temp, manifestName(m.Seq)); err != nil {
		return w, err
	}
	made = append(made[:len(made)-1], manifestName(m.Seq))
	if err := s.fs.Sync(); err != nil {
		return w, err
	}
	w.Bytes += int64(len(src))
	w.Live = m.Live()
	for i := range data {
		clear(data[i].Dirty)
	}
	old := s.kept
	s.kept = m
	s.sweep(m, old)
	s.older = old != nil
	return w, nil
}

// lay gives blocks their places. at has, by data, the blocks to write. The size of the
// data file is in bytes.
func (s *Store) lay(m *Manifest, data []Source) (bytes int64, at [][]int) {
	before := make(map[string][]Block)
	if s.kept != nil && !s.full {
		for _, d := range s.kept.Data {
			before[d.Name] = d.Blocks
		}
	}
	bytes = AlignBytes // the header
	for i := range data {
		src := &data[i]
		size := int64(len(src.Mem))
		d := Data{src.Name, size, make([]Block, NumBlocks(size))}
		old := before[src.Name]
		at = append(at, nil)
		for b := range d.Blocks {
			switch {
			case !src.Live[b]:
			case !src.Dirty[b] && len(old) == len(d.Blocks) && old[b].File > 0:
				d.Blocks[b] = old[b]
			default:
				d.Blocks[b] = Block{File: m.Seq, At: bytes, Sum: math.MaxUint32} // as long as any, until it is known
				bytes += (BlockSize(size, b) + AlignBytes - 1) / AlignBytes * AlignBytes
				at[i] = append(at[i], b)
			}
		}
		m.Data = append(m.Data, d)
	}
	return bytes, at
}

// writeData writes the data file of a manifest and fills in the checksums.
func (s *Store) writeData(m *Manifest, data []Source, at [][]int, bytes int64) error {
	return s.writeFile(dataName(m.Seq), bytes, func(f File) error {
		if _, err := f.Write(header(s.folder, m.Seq)); err != nil {
			return err
		}
		for i, blocks := range at {
			for len(blocks) > 0 {
				n := inRow(blocks)
				if err := s.writeBlocks(f, &m.Data[i], data[i].Mem, blocks[:n]); err != nil {
					return err
				}
				blocks = blocks[n:]
			}
		}
		return nil
	})
}

// atOnce is the number of blocks that one call writes at most, 128 MiB. A goroutine in a system call keeps one of
// Go's processors idle until the scheduler takes that away, after up to 10 ms. Few long calls therefore cost less
// than many short ones, each of which is over before.
const atOnce = 128

// inRow returns how many of some blocks, in order, lie in a row and are written at once.
func inRow(blocks []int) int {
	n := 1
	for n < min(len(blocks), atOnce) && blocks[n] == blocks[0]+n {
		n++
	}
	return n
}

// writeBlocks writes blocks in a row, the last of which may be cut short, and fills in their checksums.
func (s *Store) writeBlocks(f File, d *Data, mem []byte, blocks []int) error {
	lo := int64(blocks[0]) * BlockBytes
	row := mem[lo:min(lo+int64(len(blocks))*BlockBytes, int64(len(mem)))]
	for k, b := range blocks {
		d.Blocks[b].Sum = Sum(row[k*BlockBytes : min((k+1)*BlockBytes, len(row))])
	}
	whole := len(row) / AlignBytes * AlignBytes
	if whole > 0 {
		if _, err := f.Write(row[:whole]); err != nil {
			return err
		}
	}
	if rest := row[whole:]; len(rest) > 0 {
		clear(s.pad)
		copy(s.pad, rest)
		if _, err := f.Write(s.pad); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file and makes it and its content durable.
func (s *Store) writeFile(name string, size int64, write func(f File) error) error {
	f, err := s.fs.Create(name, size)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// wasteBytes is the part of the data files that may be blocks which no checkpoint needs, besides
// as much again as it needs, before all blocks are written anew.
const wasteBytes = 64 << 20

// maxFiles is the number of data files that a checkpoint may refer to before all blocks are written anew,
// so that a folder has hundreds of files and not as many as there are blocks.
const maxFiles = 200

// sweep removes files that neither of two checkpoints needs. What cannot be removed is
// tried again after the next one. It has the next checkpoint write all blocks if too much
// of the data files is not needed, or they are too many.
func (s *Store) sweep(m, old *Manifest) {
	names, err := s.fs.List()
	if err != nil {
		return
	}
	need := m.files()
	own := len(need)
	if old != nil {
		for n := range old.files() {
			need[n] = true
		}
	}
	for _, name := range names {
		if n, ok := numberOf(name, manifestPrefix); ok && n != m.Seq && (old == nil || n != old.Seq) {
			_ = s.fs.Remove(name)
		}
		if n, ok := numberOf(name, dataPrefix); ok && !need[n] {
			_ = s.fs.Remove(name)
		}
		if _, ok := numberOf(name, tempPrefix); ok {
			_ = s.fs.Remove(name) // of a process that was killed
		}
	}
	s.full = own > maxFiles
	if own > 1 && !s.full {
		total := int64(0)
		for n := range m.files() {
			if f, size, err := s.fs.Open(dataName(n)); err == nil {
				_ = f.Close() // nothing was written
				total += size
			}
		}
		s.full = total > 2*m.Live()+wasteBytes
	}
}
