// Package pages makes the templates of the pages that weft writes: each is one file that needs nothing
// else, and all have the style of style.css.
package pages

import (
	_ "embed" // for the style
	"html/template"
)

//go:embed style.css
var style string

// New returns the template of a page. Its text has {{template "house style"}} in its style, before what
// it adds to it, and may call funcs. New panics for a text that is no template.
func New(name, text string, funcs template.FuncMap) *template.Template {
	return template.Must(template.Must(template.New("house style").Parse(style)).New(name).Funcs(funcs).Parse(text))
}
