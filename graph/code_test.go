package graph

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

// compressed returns a content as gzip has it.
func compressed(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCode(t *testing.T) {
	text := []byte(".version 6.3\n.target sm_75\n" + strings.Repeat("add.f32 %f1, %f2, %f3;\n", 100))
	packed := compressed(t, text)
	if len(packed) >= len(text) {
		t.Fatalf("%d bytes became %d", len(text), len(packed))
	}
	wrong := bytes.Clone(packed)
	wrong[len(wrong)-5] ^= 1 // of the checksum
	for _, c := range []struct {
		name         string
		source, want []byte
		err          string // "" for none
	}{
		{"none", nil, nil, ""},
		{"text", text, text, ""},
		{"compressed", packed, text, ""},
		{"half", packed[:len(packed)/2], nil, "compressed source of f: unexpected EOF"},
		{"head", packed[:2], nil, "compressed source of f: "},
		{"checksum", wrong, nil, "compressed source of f: gzip: invalid checksum"},
		{"too large", compressed(t, make([]byte, maxCode+1)), nil, "compressed source of f: it has more than 64 MiB"},
	} {
		got, err := (&Impl{Entry: "f", Source: c.source}).Code()
		if !bytes.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d bytes, %v", c.name, len(got), err)
		}
	}
}
