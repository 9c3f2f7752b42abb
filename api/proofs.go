package api

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"time"
)

// Circuit is a circuit that a server proves.
type Circuit struct {
	Name        string `json:"name"`
	Constraints int    `json:"constraints"`
	Public      int    `json:"public"` // values
	Secret      int    `json:"secret"`
	// ForTests says that one program made the keys, so that proofs prove nothing to others.
	ForTests bool `json:"for_tests_only"`
}

// Proof is a proof of a circuit for public values, by their names. gnark's Proof.ReadFrom reads it.
type Proof struct {
	Circuit     string            `json:"circuit"`
	Proof       []byte            `json:"proof"`
	Public      map[string]string `json:"public"`
	Constraints int               `json:"constraints"`
	ForTests    bool              `json:"for_tests_only"`
	Queued      float64           `json:"queued_seconds"`
	Took        float64           `json:"seconds"`
}

// Verdict says whether a proof is one.
type Verdict struct {
	Valid  bool   `json:"valid"`
	Reason string `json:"reason,omitempty"` // why not
}

// Circuits lists the circuits that the server proves.
func (c *Client) Circuits(ctx context.Context) ([]Circuit, error) {
	var out struct {
		Circuits []Circuit `json:"circuits"`
	}
	err := c.json(ctx, http.MethodGet, "/v1/circuits", nil, nil, &out)
	return out.Circuits, err
}

// Prove has the server prove that a witness satisfies a circuit. The witness is a value whose JSON is
// an object with the values of all variables by their names. The server takes no longer than the
// timeout, if that is not 0. A witness that does not satisfy the circuit is an [Error] with status 422.
func (c *Client) Prove(ctx context.Context, circuit string, witness any, timeout time.Duration) (out Proof, err error) {
	in := struct {
		Witness any   `json:"witness"`
		Timeout int64 `json:"timeout_ms,omitempty"`
	}{witness, timeout.Milliseconds()}
	return out, c.json(ctx, http.MethodPost, circuitPath(circuit)+"/prove", nil, in, &out)
}

// ProveAll starts a job that proves witnesses, which may be sent more than once as [Client.Submit] may.
// Its result has a proof, or an error, for each.
func (c *Client) ProveAll(ctx context.Context, circuit string, witnesses []any) (out Job, err error) {
	h := http.Header{}
	h.Set(idempotencyKey, rand.Text())
	return out, c.json(ctx, http.MethodPost, circuitPath(circuit)+"/jobs", h, map[string][]any{"witnesses": witnesses}, &out)
}

// Verify has the server verify a proof.
func (c *Client) Verify(ctx context.Context, p Proof) (out Verdict, err error) {
	in := map[string]any{"proof": p.Proof, "public": p.Public}
	return out, c.json(ctx, http.MethodPost, circuitPath(p.Circuit)+"/verify", nil, in, &out)
}

func circuitPath(name string) string { return "/v1/circuits/" + url.PathEscape(name) }
