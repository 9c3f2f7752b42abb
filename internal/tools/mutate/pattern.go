package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
)

// A list from outside has a tuple of strings in each line: a name, a file, a text that
// the file has, and the text to put in its place. A string may have a variable in front,
// as in E+'issue.go', which a line such as E='internal/engine/' defines.

// entry is a line of a list.
type entry struct{ name, file, old, new string }

// parsePatterns reads a list. Lines that are no tuples of four strings are left out.
func parsePatterns(src string) []entry {
	vars := make(map[string]string)
	var out []entry
	for line := range strings.Lines(src) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "(") {
			if name, rest, ok := strings.Cut(line, "="); ok && letters(name) {
				if text, _, ok := quoted(rest); ok {
					vars[name] = text
				}
			}
			continue
		}
		var items []string
		for rest := line[1:]; len(items) < 4; {
			text, after, ok := item(rest, vars)
			if !ok {
				break
			}
			items = append(items, text)
			rest = strings.TrimPrefix(strings.TrimSpace(after), ",")
		}
		if len(items) == 4 {
			out = append(out, entry{items[0], items[1], items[2], items[3]})
		}
	}
	return out
}

// item reads a string with the variables before it, and returns what follows.
func item(text string, vars map[string]string) (value, after string, ok bool) {
	text = strings.TrimSpace(text)
	if name, rest, found := strings.Cut(text, "+"); found && letters(name) {
		value, after, ok = item(rest, vars)
		return vars[name] + value, after, ok
	}
	return quoted(text)
}

func letters(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") == ""
}

// quoted reads a string in single or double quotes, and returns what follows.
func quoted(text string) (value, after string, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" || text[0] != '\'' && text[0] != '"' {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == text[0]:
			return b.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text):
			i++
			switch text[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// fromPatterns turns a list into mutants of files. What the files do not have is named
// in missing: the code has changed since.
func fromPatterns(list []entry, read func(file string) ([]byte, error)) (out []mutant, missing []string, err error) {
	for _, e := range list {
		src, err := read(e.file)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", e.name, err)
		}
		at := bytes.Index(src, []byte(e.old))
		if at < 0 {
			missing = append(missing, e.name)
			continue
		}
		m := newMutant(e.file, src, sha256.Sum256(src), pattern, at, at+len(e.old), e.new)
		m.What = e.name
		out = append(out, m)
	}
	return out, missing, nil
}
