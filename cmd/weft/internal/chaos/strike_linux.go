package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weft-run/weft/internal/backend/proc"
)

// Any strikes a worker of this process, which rnd chooses, and returns when it began to. A
// worker that ends by itself meanwhile is no error.
func Any(rnd *rand.Rand, s Strike) (began time.Time, err error) {
	all := slices.DeleteFunc(proc.Pids("worker"), dying)
	if len(all) == 0 {
		return began, ErrNone
	}
	slices.Sort(all)
	pid := all[rnd.IntN(len(all))]
	began = time.Now()
	return began, s.at(pid, rnd)
}

// dying reports whether a process was killed and only has not ended yet, as on a busy machine: a
// strike there is none. Its first thread is told so (a pending SIGKILL), then ends, and is a zombie
// while others have not.
func dying(pid int) bool {
	const exiting = 0x4 // PF_EXITING of the kernel
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), ") ")
	f := strings.Fields(rest)
	if len(f) < 7 || f[0] == "Z" || f[0] == "X" {
		return true
	}
	if flags, err := strconv.ParseUint(f[6], 10, 64); err != nil || flags&exiting != 0 {
		return true
	}
	text, err = os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == "SigPnd" || name == "ShdPnd" {
			if set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64); err != nil || set&(1<<(syscall.SIGKILL-1)) != 0 {
				return true
			}
		}
	}
	return false
}

// at strikes a worker.
func (s Strike) at(pid int, rnd *rand.Rand) error {
	switch s {
	case Kill:
		return signal(pid, syscall.SIGKILL)
	case Stop:
		return signal(pid, syscall.SIGSTOP)
	case Slow:
		return slow(pid, rnd)
	case Corrupt:
		return corrupt(pid, rnd)
	}
	return fmt.Errorf("no such strike: %v", s)
}

// signal sends a signal; a process that has ended is no error.
func signal(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %v to worker %d: %w", sig, pid, err)
	}
	return nil
}

// slow stops a worker nine tenths of the time for a fifth of a second.
func slow(pid int, rnd *rand.Rand) error {
	for range 10 {
		if err := signal(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(18 * time.Millisecond)
		if err := signal(pid, syscall.SIGCONT); err != nil {
			return err
		}
		time.Sleep(time.Duration(1+rnd.IntN(3)) * time.Millisecond)
	}
	return nil
}

// ringFD is the descriptor under which a worker has the memory it shares with its parent.
const ringFD = 4

// corrupt overwrites that memory with noise.
func corrupt(pid int, rnd *rand.Rand) error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", pid, ringFD), os.O_RDWR, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return nil // it has ended
		}
		return fmt.Errorf("memory of worker %d: %w", pid, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	noise := make([]byte, st.Size())
	for i := range noise {
		noise[i] = byte(rnd.Uint32())
	}
	_, err = f.WriteAt(noise, 0)
	return err
}
