package serve

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/weft-run/weft/internal/safefile"
)

const (
	maxTokens   = 1 << 20 // bytes of a file
	leastToken  = 16      // bytes of a token: shorter ones can be guessed
	longestHead = 4096    // bytes of a header that may hold a token
)

// tokens are the secrets by which clients prove who they are. Of a token only its hash is kept.
type tokens []struct {
	name string
	hash [sha256.Size]byte
}

// loadTokens reads a file with a line for each token, "NAME TOKEN" or a token alone, empty
// lines and lines that begin with #. Nobody but its owner may read it.
func loadTokens(path string) (tokens, error) {
	src, err := safefile.ReadSecret(path, maxTokens)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	t, err := parseTokens(src)
	if err != nil {
		return nil, fmt.Errorf("tokens: %s: %w", path, err)
	}
	return t, nil
}

func parseTokens(src []byte) (out tokens, err error) {
	names := make(map[string]bool)
	n := 0
	for line := range bytes.Lines(src) {
		n++
		words := strings.Fields(string(line))
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		name, token := fmt.Sprintf("token-%d", n), words[len(words)-1]
		switch {
		case len(words) > 2:
			return nil, fmt.Errorf("line %d: expected NAME TOKEN, or a token alone", n)
		case len(words) == 2:
			name = words[0]
		}
		switch {
		case len(token) < leastToken:
			return nil, fmt.Errorf("line %d: a token has at least %d characters; openssl rand -hex 32 makes one", n, leastToken)
		case names[name]:
			return nil, fmt.Errorf("line %d: %s is there twice", n, name)
		}
		names[name] = true
		out = append(out, struct {
			name string
			hash [sha256.Size]byte
		}{name, sha256.Sum256([]byte(token))})
	}
	if len(out) == 0 {
		return nil, errors.New("it has no token")
	}
	return out, nil
}

// who returns the name that belongs to a token, of which the hash is given. It takes as long
// whether the token is one or not, and whichever it is.
func (ts tokens) who(hash *[sha256.Size]byte) (name string, ok bool) {
	at := -1
	for i := range ts {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(hash[:], ts[i].hash[:]), i, at)
	}
	if at < 0 {
		return "", false
	}
	return ts[at].name, true
}

// bearer returns the token of an Authorization: a bearer's, or the password of a browser.
func bearer(h string) string {
	kind, rest, ok := strings.Cut(h, " ")
	if !ok || len(h) > longestHead {
		return ""
	}
	switch strings.ToLower(kind) {
	case "bearer":
		return strings.TrimSpace(rest)
	case "basic":
		pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
		if _, password, ok := strings.Cut(string(pair), ":"); err == nil && ok {
			return password
		}
	}
	return ""
}

// neighbours is an address, or of IPv6 the network that one customer has.
func neighbours(address string) string {
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return address
}

// shown is the token that a connection has shown, by its hash. It is nil for none.
type shown struct {
	hash atomic.Pointer[[sha256.Size]byte]
}

func (s *shown) has(hash *[sha256.Size]byte) bool {
	if s == nil {
		return false
	}
	h := s.hash.Load()
	return h != nil && subtle.ConstantTimeCompare(h[:], hash[:]) == 1
}

func (s *shown) keep(hash *[sha256.Size]byte) {
	if s != nil {
		s.hash.Store(hash)
	}
}
