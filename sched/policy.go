package sched

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ErrUnknown is returned for a name that no policy or partitioner has.
var ErrUnknown = errors.New("unknown name")

// Default is the name of the policy used when none is asked for.
const Default = "finish"

// policies are all there are, by name. A new policy is a row, and a file for it.
var policies = map[string]struct {
	about string // what it does, in a phrase
	make  Factory
}{
	"adaptive":          {"learns by reward which device suits which work", newAdaptive},
	"capacity":          {"most capability left: score × (1 − utilisation)", newCapacity},
	"capacity-weighted": {"tasks in proportion to what devices can do", newWeighted},
	"finish":            {"earliest predicted finish, copies included", newFinish},
	"hierarchical":      {"balances groups of devices, then within a group", newHierarchical},
	"leastloaded":       {"least work waiting for its speed", newLeastLoaded},
	"priority":          {"urgent tasks first, on the most capable device", newPriority},
	"roundrobin":        {"devices in turn", newRoundRobin},
	"steal":             {"a queue each; idle devices take from the longest", newSteal},
}

// Policies returns every policy by name. The map is the caller's.
func Policies() map[string]Factory {
	out := make(map[string]Factory, len(policies))
	for name, p := range policies {
		out[name] = p.make
	}
	return out
}

// About says in a phrase what the policy with a name does.
func About(name string) string { return policies[name].about }

// Names returns the names of all policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(policies)) }

// New returns the policy with a name; an empty name means Default. The error
// wraps ErrUnknown and lists the names there are.
func New(name string) (Factory, error) {
	if name == "" {
		name = Default
	}
	if p, ok := policies[name]; ok {
		return p.make, nil
	}
	return nil, fmt.Errorf("policy %q: %w%s; use one of %s", name, ErrUnknown, hint("policy", name), strings.Join(Names(), ", "))
}
