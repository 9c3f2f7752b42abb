// Package numa reads which memory nodes a machine has: parts of its memory that some
// cores reach faster than others do.
package numa

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Node is a part of the machine's memory with the cores next to it.
type Node struct {
	ID     int
	Cores  []int // ascending; none for memory alone
	Memory bool  // it has memory
}

// Nodes returns the nodes of this machine by number, none where they are not known.
func Nodes() []Node { return Read(os.DirFS("/sys/devices/system/node")) }

// Read returns the nodes that a folder describes as Linux does: node0/cpulist and so on,
// and has_memory. A list that cannot be read is empty.
func Read(sys fs.FS) []Node {
	list := func(name string) []int {
		b, err := fs.ReadFile(sys, name)
		if err != nil {
			return nil
		}
		numbers, _ := ParseList(string(b)) // none if it is no list
		return numbers
	}
	folders, err := fs.ReadDir(sys, ".")
	if err != nil {
		return nil
	}
	memory := list("has_memory")
	var nodes []Node
	for _, f := range folders {
		number, ok := strings.CutPrefix(f.Name(), "node")
		id, err := strconv.Atoi(number)
		if ok && err == nil && id >= 0 {
			nodes = append(nodes, Node{ID: id, Cores: list(f.Name() + "/cpulist"), Memory: slices.Contains(memory, id)})
		}
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

// maxNumber is the largest core or node that a list may name.
const maxNumber = 1 << 16

// ParseList reads a list of numbers as Linux writes them, such as 0-3,8, and reports
// whether it is one.
func ParseList(s string) (numbers []int, ok bool) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(s, ",") {
		first, last, ranged := strings.Cut(part, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if ranged && err == nil {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi > maxNumber {
			return nil, false
		}
		for ; lo <= hi; lo++ {
			numbers = append(numbers, lo)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), true
}

// Arrange orders cores by node, then by number; cores of no node come last. With one
// node or none they ascend.
func Arrange(cores []int, nodes []Node) []int {
	home := Homes(nodes)
	out := slices.Clone(cores)
	at := func(core int) int {
		if id, ok := home[core]; ok {
			return id
		}
		return maxNumber + 1
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a, b)) })
	return out
}

// Homes returns the node of every core.
func Homes(nodes []Node) map[int]int {
	home := make(map[int]int)
	for _, n := range nodes {
		for _, c := range n.Cores {
			home[c] = n.ID
		}
	}
	return home
}
