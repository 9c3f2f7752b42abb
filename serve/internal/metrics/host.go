package metrics

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// host is what the machine has done, as Linux tells in /proc. What a system does not tell is 0.
type host struct {
	cpuBusy, cpuAll        float64 // ticks of all processors since boot
	memBytes, memAvailable float64
	network                []networkLink
	cpuSeconds             float64 // of this process
	residentBytes          float64 // of this process
	openFiles              float64 // of this process
}

// networkLink is a network interface with the bytes that went over it since boot.
type networkLink struct {
	name           string
	received, sent float64
	bytesPerSecond float64 // that it can carry each way; 0 if it does not say
}

// ticks is the number of ticks in a second of /proc/self/stat, which is the same on all
// architectures that Go supports.
const ticks = 100

// readHost reads the files of the machine whose root is given.
func readHost(root string) host {
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return ""
		}
		return string(b)
	}
	var h host
	h.cpuBusy, h.cpuAll = parseStat(read("proc/stat"))
	h.memBytes, h.memAvailable = parseMeminfo(read("proc/meminfo"))
	h.network = parseNetwork(read("proc/net/dev"))
	for i := range h.network {
		l := &h.network[i]
		if megabits, err := strconv.ParseFloat(strings.TrimSpace(read(filepath.Join("sys/class/net", l.name, "speed"))), 64); err == nil && megabits > 0 {
			l.bytesPerSecond = megabits * 1e6 / 8
		}
	}
	h.cpuSeconds = parseProcess(read("proc/self/stat"))
	if f := strings.Fields(read("proc/self/statm")); len(f) > 1 {
		h.residentBytes = number(f[1]) * float64(os.Getpagesize())
	}
	if files, err := os.ReadDir(filepath.Join(root, "proc/self/fd")); err == nil {
		h.openFiles = float64(len(files))
	}
	return h
}

// number parses a figure that is not negative; anything else is 0.
func number(s string) float64 {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0
	}
	return float64(n)
}

// parseStat reads the line of all processors: user, nice, system, idle, iowait, irq, softirq, steal,
// and two that are part of the first ones. Idle and iowait are not busy.
func parseStat(text string) (busy, all float64) {
	line, _, _ := strings.Cut(text, "\n")
	f := strings.Fields(line)
	if len(f) < 5 || f[0] != "cpu" {
		return 0, 0
	}
	for i, field := range f[1:min(len(f), 9)] {
		n := number(field)
		all += n
		if i != 3 && i != 4 {
			busy += n
		}
	}
	return busy, all
}

// parseMeminfo reads two lines of /proc/meminfo, which are in KiB.
func parseMeminfo(text string) (total, available float64) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = number(f[1]) * 1024
		case "MemAvailable:":
			available = number(f[1]) * 1024
		}
	}
	return total, available
}

// maxLinks is the most network interfaces that are told; containers come with one each.
const maxLinks = 64

// parseNetwork reads /proc/net/dev: two lines of heads, then a line for each interface. The one that
// leads back to the machine itself is left out.
func parseNetwork(text string) (out []networkLink) {
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		f := strings.Fields(rest)
		name = strings.TrimSpace(name)
		if !ok || len(f) < 9 || name == "lo" || name == "" || strings.ContainsAny(name, "/\x00") || len(out) == maxLinks {
			continue
		}
		out = append(out, networkLink{name: name, received: number(f[0]), sent: number(f[8])})
	}
	return out
}

// parseProcess reads the seconds of processor time, of user and system, from /proc/self/stat. The name
// of the program, in parentheses, may have blanks.
func parseProcess(text string) float64 {
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 13 {
		return 0
	}
	return (number(f[11]) + number(f[12])) / ticks
}

// cpuUtilisation is the part of all processors' time that was not idle.
func cpuUtilisation(before, now *host) (float64, bool) {
	all := now.cpuAll - before.cpuAll
	if all <= 0 {
		return 0, false
	}
	return min(max((now.cpuBusy-before.cpuBusy)/all, 0), 1), true
}

// networkUtilisation is the greater of what an interface received and sent in a second, as a part of
// what it can carry.
func networkUtilisation(before *host, now networkLink, seconds float64) (float64, bool) {
	for _, was := range before.network {
		if was.name == now.name && now.bytesPerSecond > 0 && seconds > 0 {
			return max(now.received-was.received, now.sent-was.sent, 0) / seconds / now.bytesPerSecond, true
		}
	}
	return 0, false
}
