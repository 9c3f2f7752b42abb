// Command modproxy writes the modules of this workspace into a folder that the go command takes as a module proxy, by
// GOPROXY=file://FOLDER: what depends on them can then be built, installed and tidied as if they had been published.
//
//	go run ./internal/tools/modproxy FOLDER VERSION
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "modproxy: give a folder to write and a version such as v0.1.0")
		os.Exit(2)
	}
	if err := write("go.work", os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "modproxy:", err)
		os.Exit(1)
	}
}

// write writes every module that a workspace file uses.
func write(workspace, folder, version string) error {
	src, err := os.ReadFile(workspace)
	if err != nil {
		return err
	}
	work, err := modfile.ParseWork(workspace, src, nil)
	if err != nil {
		return err
	}
	for _, use := range work.Use {
		if err := add(filepath.Join(filepath.Dir(workspace), use.Path), folder, version); err != nil {
			return fmt.Errorf("%s: %w", use.Path, err)
		}
	}
	return nil
}

// add writes the module in dir: a list of its versions and, for the one, its go.mod, its files and its time.
func add(dir, folder, version string) (err error) {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	name, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	to := filepath.Join(folder, name, "@v")
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Unix(0, 0).UTC()})
	if err != nil {
		return err
	}
	for file, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".mod": mod, version + ".info": info} {
		if err := os.WriteFile(filepath.Join(to, file), text, 0o666); err != nil {
			return err
		}
	}
	out, err := os.Create(filepath.Join(to, version+".zip"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return zip.CreateFromDir(out, m, dir)
}
