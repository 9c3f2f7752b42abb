package pages_test

import (
	"strings"
	"testing"

	"github.com/weft-run/weft/cmd/weft/internal/pages"
)

// A page has the style in it, and its own behind that.
func TestNew(t *testing.T) {
	var out strings.Builder
	text := `<style>{{template "house style"}}b { color: red; }</style><b>{{.}}</b>`
	if err := pages.New("p", text, nil).Execute(&out, "a < b"); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if !strings.HasPrefix(got, "<style>:root {") || !strings.Contains(got, "--page: #f7f7f5") || !strings.HasSuffix(got, "}\nb { color: red; }</style><b>a &lt; b</b>") {
		t.Errorf("%s", got)
	}
}
