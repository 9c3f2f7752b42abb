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

// Policies returns every policy by name. The map is the caller's.
func Policies() map[string]Factory {
	return map[string]Factory{
		"adaptive":          newAdaptive,
		"capacity":          newCapacity,
		"capacity-weighted": newWeighted,
		"finish":            newFinish,
		"hierarchical":      newHierarchical,
		"leastloaded":       newLeastLoaded,
		"priority":          newPriority,
		"roundrobin":        newRoundRobin,
		"steal":             newSteal,
	}
}

// abouts describes every policy in a phrase.
var abouts = map[string]string{
	"adaptive":          "learns by reward which device suits which work",
	"capacity":          "most capability left: score × (1 − utilisation)",
	"capacity-weighted": "tasks in proportion to what devices can do",
	"finish":            "earliest predicted finish, copies included",
	"hierarchical":      "balances groups of devices, then within a group",
	"leastloaded":       "least work waiting for its speed",
	"priority":          "urgent tasks first, on the most capable device",
	"roundrobin":        "devices in turn",
	"steal":             "a queue each; idle devices take from the longest",
}

// About says in a phrase what the policy with a name does.
func About(name string) string { return abouts[name] }

// Names returns the names of all policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(Policies())) }

// New returns the policy with a name; an empty name means Default. The error
// wraps ErrUnknown and lists the names there are.
func New(name string) (Factory, error) {
	if name == "" {
		name = Default
	}
	if f, ok := Policies()[name]; ok {
		return f, nil
	}
	return nil, fmt.Errorf("policy %q: %w; use one of %s", name, ErrUnknown, strings.Join(Names(), ", "))
}
