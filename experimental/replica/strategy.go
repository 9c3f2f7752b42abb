package replica

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Kind says when replicas are merged.
type Kind string

const (
	Eager    Kind = "eager"    // after every update
	Periodic Kind = "periodic" // when some time has passed since the last merge
	Adaptive Kind = "adaptive" // when they have come too far apart
	None     Kind = "none"     // only when Sync is called
)

// Strategy says when replicas are merged. The zero value is eager.
type Strategy struct {
	Kind Kind
	// Every is the time between merges of a periodic strategy.
	Every time.Duration
	// Threshold is the divergence past which an adaptive one merges.
	Threshold float64
}

// ParseStrategy reads what String writes: "eager", "periodic 100ms",
// "adaptive 0.1" or "none"; nothing is eager.
func ParseStrategy(text string) (Strategy, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	s := Strategy{Kind: Kind(word)}
	var err error
	switch rest = strings.TrimSpace(rest); {
	case rest == "" && (s.Kind == Periodic || s.Kind == Adaptive):
		err = fmt.Errorf("%s wants a value after it", word)
	case s.Kind == Periodic:
		s.Every, err = time.ParseDuration(rest)
	case s.Kind == Adaptive:
		s.Threshold, err = strconv.ParseFloat(rest, 64)
	case rest != "":
		err = fmt.Errorf("nothing may follow %s", word)
	}
	if err != nil {
		return Strategy{}, fmt.Errorf("strategy %q: %w: %w; as in %s", text, ErrOptions, err, strategies)
	}
	return s, s.Validate()
}

const strategies = `"eager", "periodic 100ms", "adaptive 0.1" or "none"`

// String returns the text ParseStrategy reads.
func (s Strategy) String() string {
	switch s.Kind {
	case "":
		return string(Eager)
	case Periodic:
		return fmt.Sprintf("%s %v", s.Kind, s.Every)
	case Adaptive:
		return fmt.Sprintf("%s %v", s.Kind, s.Threshold)
	}
	return string(s.Kind)
}

// Validate reports a strategy that there is not, wrapping ErrOptions.
func (s Strategy) Validate() error {
	switch s.Kind {
	case "", Eager, None:
	case Periodic:
		if s.Every <= 0 {
			return fmt.Errorf("strategy %v: %w: the time between merges must be more than 0", s, ErrOptions)
		}
	case Adaptive:
		if !(s.Threshold > 0) || math.IsInf(s.Threshold, 0) {
			return fmt.Errorf("strategy %v: %w: the threshold must be more than 0", s, ErrOptions)
		}
	default:
		return fmt.Errorf("strategy %q: %w: use %s", string(s.Kind), ErrOptions, strategies)
	}
	return nil
}
