package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// model is a server's description of a model, in the form of the protocol.
type model struct {
	Name     string   `json:"name"`
	Versions []string `json:"versions"`
	Inputs   []spec   `json:"inputs"`
}

// spec is an input of a model.
type spec struct {
	Name  string  `json:"name"`
	Type  Type    `json:"datatype"`
	Shape []int64 `json:"shape"` // -1 for a dimension that a request chooses
}

// ask finds out which model is meant and what it takes.
func (c *Client) ask(ctx context.Context, cn *conn) error {
	name := cmp.Or(c.o.Model, c.o.Target.model)
	switch {
	case c.o.Target.model != "" && name != c.o.Target.model:
		return fmt.Errorf("%w: the address names model %q, and --model %q", ErrOption, c.o.Target.model, name)
	case name == "" && c.o.Target.grpc:
		return fmt.Errorf("%w: a server does not list its models by gRPC; name one, as in grpc://HOST:PORT/MODEL", ErrOption)
	case name == "":
		var err error
		if name, err = c.only(ctx, cn); err != nil {
			return err
		}
	}
	c.model.Name = name
	if c.o.Target.grpc {
		return c.askRPC(ctx, cn)
	}
	a, err := cn.exchange(ctx, c.request("GET", c.path(""), nil), time.Now().Add(c.o.Timeout), true)
	switch {
	case err != nil:
		return c.o.Target.failed(err)
	case a.status == http.StatusNotFound:
		return fmt.Errorf("%s: no model %q there (%s); --model names another", c.o.Target, name, a.reason())
	case a.status != http.StatusOK:
		return fmt.Errorf("%s: asked for model %q, the server answered with %s", c.o.Target, name, a.reason())
	}
	m, err := parseModel(a.body)
	if err != nil {
		return fmt.Errorf("%s: what the server says of model %q: %w", c.o.Target, name, err)
	}
	m.Name = name
	c.model = m
	return nil
}

// path is the path of the model, or of something of it.
func (c *Client) path(of string) string {
	p := c.o.Target.prefix + "/v2/models/" + url.PathEscape(c.model.Name)
	if c.o.Version != "" {
		p += "/versions/" + url.PathEscape(c.o.Version)
	}
	return p + of
}

// only returns the name of the only model of a server that lists its models. The list is an
// extension of the protocol.
func (c *Client) only(ctx context.Context, cn *conn) (string, error) {
	a, err := cn.exchange(ctx, c.request("POST", c.o.Target.prefix+"/v2/repository/index", []byte("{}")), time.Now().Add(c.o.Timeout), true)
	if err != nil {
		return "", c.o.Target.failed(err)
	}
	if a.status != http.StatusOK {
		return "", fmt.Errorf("%w: %s does not list its models (%s); name one by --model", ErrOption, c.o.Target, a.reason())
	}
	names, err := parseIndex(a.body)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: the list of its models: %w; name one by --model", c.o.Target, err)
	case len(names) == 0:
		return "", fmt.Errorf("%s: the server has no model that is ready", c.o.Target)
	case len(names) > 1:
		return "", fmt.Errorf("%w: %s has several models; name one by --model: %s", ErrOption, c.o.Target, strings.Join(names, ", "))
	}
	return names[0], nil
}

// parseIndex reads a list of models and returns the names of those that are ready, each once.
func parseIndex(body []byte) ([]string, error) {
	var entries []struct{ Name, State string }
	if err := json.Unmarshal(body, &entries); err != nil {
		return nil, fmt.Errorf("not what the protocol says: %w", err)
	}
	var names []string
	seen := make(map[string]bool)
	for _, e := range entries { // a name that cannot be shown can still be given
		if e.Name != "" && e.Name == shown(e.Name) && !seen[e.Name] && (e.State == "" || strings.EqualFold(e.State, "ready")) {
			seen[e.Name] = true
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// maxInputs is the most inputs of a model.
const maxInputs = 1024

// parseModel reads what a server says of a model.
func parseModel(body []byte) (model, error) {
	var m model
	if err := json.Unmarshal(body, &m); err != nil {
		return m, fmt.Errorf("not what the protocol says: %w", err)
	}
	return m, m.check()
}

// check errs for what a server says and no model can be.
func (m *model) check() error {
	if len(m.Inputs) == 0 {
		return errors.New("it names no inputs")
	}
	if len(m.Inputs) > maxInputs {
		return fmt.Errorf("%d inputs; %d are the most", len(m.Inputs), maxInputs)
	}
	seen := make(map[string]bool)
	for _, in := range m.Inputs {
		switch {
		case in.Name == "" || seen[in.Name]:
			return fmt.Errorf("input %q: every input needs a name of its own", in.Name)
		case in.Type.size() == 0 && in.Type != bytesType:
			return fmt.Errorf("input %q has the type %q, which the protocol does not know", in.Name, in.Type)
		}
		seen[in.Name] = true
		for _, d := range in.Shape {
			if d < -1 || d == 0 {
				return fmt.Errorf("input %q has a dimension of %d", in.Name, d)
			}
		}
	}
	return nil
}

// request makes a request with its head. A body is JSON unless a header says otherwise.
func (c *Client) request(method, path string, body []byte, header ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: weft-load\r\n", method, path, c.o.Target.host)
	if c.o.Token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", c.o.Token)
	}
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	if body != nil {
		if len(header) == 0 {
			b.WriteString("Content-Type: application/json\r\n")
		}
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.Write(body)
	return []byte(b.String())
}
