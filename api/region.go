package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// RegionStatus is shared memory that a server knows, as Triton's system shared memory extension has
// it.
type RegionStatus struct {
	Name   string `json:"name"`
	Key    string `json:"key"` // the name of its file in /dev/shm
	Offset int64  `json:"offset"`
	Size   int64  `json:"byte_size"`
}

// Region is memory that this program shares with a server on the same machine, by a file in
// /dev/shm: tensors in it are not sent. The server must run as the same user, permit it
// (shared_memory in its configuration), and know it (Client.Register). It is there on Linux.
//
// A tensor in a region must not be changed while a request with it is under way.
type Region struct {
	key  string // the name of its file, and of the region
	data []byte
}

// Size returns the bytes of a region.
func (r *Region) Size() int64 { return int64(len(r.data)) }

// Tensor returns a tensor whose Data is the memory of a region from offset on. It is an input
// (InferRequest.Inputs), or room for an output (InferRequest.Into).
func (r *Region) Tensor(name, datatype string, offset int64, shape ...int64) (Tensor, error) {
	t := Tensor{Name: name, Datatype: datatype, Shape: shape, region: r, offset: offset}
	n, err := Elements(shape)
	if err != nil {
		return Tensor{}, fmt.Errorf("api: tensor %q: %w", name, err)
	}
	size := n * ElementSize(datatype)
	if offset < 0 || offset > r.Size() || size > r.Size()-offset {
		return Tensor{}, fmt.Errorf("api: tensor %q takes %d bytes from byte %d on, and the region has %d", name, size, offset, r.Size())
	}
	t.Data = r.data[offset : offset+size : offset+size]
	if err := t.check(); err != nil {
		return Tensor{}, fmt.Errorf("api: %w", err)
	}
	return t, nil
}

// shared returns the parameters of a tensor in a region, nil for any other. Data that was replaced
// is not the region's any more.
func (t *Tensor) shared() map[string]any {
	r := t.region
	if r == nil || len(t.Data) == 0 || t.offset+int64(len(t.Data)) > r.Size() || &t.Data[0] != &r.data[t.offset] {
		return nil
	}
	return map[string]any{"shared_memory_region": r.key, "shared_memory_offset": t.offset, "shared_memory_byte_size": len(t.Data)}
}

// Register tells the server of a region.
func (c *Client) Register(ctx context.Context, r *Region) error {
	return c.json(ctx, http.MethodPost, regionPath(r.key)+"/register", nil, map[string]any{"key": "/" + r.key, "offset": 0, "byte_size": r.Size()}, nil)
}

// Unregister has the server forget a region.
func (c *Client) Unregister(ctx context.Context, r *Region) error {
	return c.json(ctx, http.MethodPost, regionPath(r.key)+"/unregister", nil, struct{}{}, nil)
}

// Regions lists the regions that the server knows.
func (c *Client) Regions(ctx context.Context) (out []RegionStatus, err error) {
	return out, c.json(ctx, http.MethodGet, "/v2/systemsharedmemory/status", nil, nil, &out)
}

func regionPath(name string) string { return "/v2/systemsharedmemory/region/" + url.PathEscape(name) }
