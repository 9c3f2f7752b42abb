package sched

import (
	"fmt"
	"slices"
	"strings"
)

// elsewhere has names that other systems and papers give to policies and partitioners, by weft's name. They select
// nothing: an error for one of them says what weft calls it. docs/NAMES.md has them with more.
var elsewhere = map[string]map[string][]string{
	"policy": {
		"adaptive":          {"Adaptive", "Q-learning", "MLDriven"},
		"capacity":          {"CapacityBased", "best fit"},
		"capacity-weighted": {"random (StarPU: drawn by speed)", "weighted round robin", "ProportionalSplit"},
		"finish":            {"HEFT", "PEFT", "EFT", "MCT", "dm", "dmda", "dmdas", "dmdar", "LatencyOptimized"},
		"hierarchical":      {"HierarchicalBalancing", "heteroprio", "two-level"},
		"leastloaded":       {"WeightedLoad", "LoadBalanced", "JSQ", "join the shortest queue", "OLB", "least connections"},
		"priority":          {"prio", "eager (StarPU: one queue)"},
		"roundrobin":        {"RoundRobin", "SPREAD (Ray)"},
		"steal":             {"WorkStealing", "DynamicWorkStealing", "ws", "lws"},
	},
	"partitioner": {
		"dynamic":      {"DynamicSplit", "LoadBalanced"},
		"equal":        {"EqualSplit", "BalancedPartitioner", "ResidueRanges", "Contiguous", "static", "RoundRobin (in contiguous chunks)"},
		"latency":      {"LatencyOptimizedPartitioner", "LatencyOptimized"},
		"memory":       {"MemoryAwarePartitioner", "MemoryAware"},
		"proportional": {"ProportionalSplit", "CapabilityAwarePartitioner", "CapabilityAware", "weighted"},
	},
}

// hint says what weft calls what others call by a name, as " (weft calls it …)", or nothing. Case, spaces, hyphens and
// underscores do not count.
func hint(kind, name string) string {
	asked := plain(name)
	if asked == "" {
		return ""
	}
	var ours []string
	for own, names := range elsewhere[kind] {
		is := func(theirs string) bool { first, _, _ := strings.Cut(theirs, " ("); return plain(first) == asked }
		if plain(own) == asked || slices.ContainsFunc(names, is) {
			ours = append(ours, own)
		}
	}
	if len(ours) == 0 {
		return ""
	}
	slices.Sort(ours)
	return fmt.Sprintf(" (weft calls it %s)", strings.Join(ours, " or "))
}

func plain(name string) string {
	return strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(name))
}
