package vulkan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weft-run/weft/experimental/driver"
	"github.com/weft-run/weft/internal/safefile"
)

// The loader runs what manifests name with the caller's rights: drivers, and layers that
// ask to be in every program. It looks for manifests in folders of the system, in those
// of the caller's home and where the environment says, and takes all that it finds. So
// before it is called, this file looks in the same places, and Vulkan is not used while
// any user but root and the caller could have written what the loader would take.

// kinds of manifests, as the folders are called.
const (
	driverManifests = "icd.d"
	layerManifests  = "implicit_layer.d"
	namedManifests  = "explicit_layer.d" // layers a program asks for
)

// maxManifest is the most bytes of a manifest; the validation layer's has 36 kB.
const maxManifest = 1 << 20

// manifestFolders are the folders the loader searches, without vulkan and the kind.
func manifestFolders(env func(string) string) (out []string) {
	home := env("HOME")
	add := func(list, byDefault string) {
		if list == "" {
			list = byDefault
		}
		for _, f := range filepath.SplitList(list) {
			if filepath.IsAbs(f) {
				out = append(out, f)
			}
		}
	}
	own := func(folder string) string {
		if home == "" {
			return ""
		}
		return filepath.Join(home, folder)
	}
	add(env("XDG_CONFIG_HOME"), own(".config"))
	add(env("XDG_CONFIG_DIRS"), "/etc/xdg")
	add("/usr/local/etc:/etc", "")
	add(env("XDG_DATA_HOME"), own(".local/share"))
	add(env("XDG_DATA_DIRS"), "/usr/local/share:/usr/share")
	return out
}

// manifests are the files and folders in which the loader looks for manifests. named
// says that the program asks for layers.
func manifests(env func(string) string, named bool) (out []string) {
	only := func(vars ...string) bool { // the first of them that is set replaces the search
		for _, v := range vars {
			if list := env(v); list != "" {
				out = append(out, filepath.SplitList(list)...)
				return true
			}
		}
		return false
	}
	folders := manifestFolders(env)
	search := func(kind string) {
		for _, f := range folders {
			out = append(out, filepath.Join(f, "vulkan", kind))
		}
	}
	if !only("VK_DRIVER_FILES", "VK_ICD_FILENAMES") {
		only("VK_ADD_DRIVER_FILES")
		search(driverManifests)
	}
	if !only("VK_IMPLICIT_LAYER_PATH") {
		only("VK_ADD_IMPLICIT_LAYER_PATH")
		search(layerManifests)
	}
	if (named || env("VK_INSTANCE_LAYERS") != "" || env("VK_LOADER_LAYERS_ENABLE") != "") && !only("VK_LAYER_PATH") {
		only("VK_ADD_LAYER_PATH")
		search(namedManifests)
	}
	return out
}

// checkManifests returns an error if another user could have written what the loader
// would run.
func checkManifests(env func(string) string, named bool) error {
	for _, place := range manifests(env, named) {
		files := []string{place}
		if info, err := os.Stat(place); err != nil {
			continue // the loader does not find it, either
		} else if info.IsDir() {
			files = nil
			entries, _ := os.ReadDir(place) // as far as it can be read
			for _, e := range entries {
				if strings.HasSuffix(e.Name(), ".json") {
					files = append(files, filepath.Join(place, e.Name()))
				}
			}
		}
		for _, f := range files {
			if err := checkManifest(f); err != nil {
				return fmt.Errorf("vulkan: %w: the loader would run what %s names: %w; take it away, or take away others' right to write there", driver.ErrUnavailable, f, err)
			}
		}
	}
	return nil
}

// checkManifest returns an error if another user could have written a manifest or a
// library that it names. What is not there or no manifest, the loader leaves out.
func checkManifest(path string) error {
	err := safefile.Trusted(path)
	if err != nil {
		return ignoreMissing(err)
	}
	b, err := safefile.ReadNamed(path, maxManifest)
	if err != nil {
		return ignoreMissing(err)
	}
	type library struct {
		Path string `json:"library_path"`
	}
	var m struct {
		ICD, Layer library
		Layers     []library
	}
	if json.Unmarshal(b, &m) != nil {
		return nil
	}
	for _, lib := range append(m.Layers, m.ICD, m.Layer) {
		if !strings.Contains(lib.Path, "/") {
			continue // found as every library of the system is
		}
		if !filepath.IsAbs(lib.Path) {
			lib.Path = filepath.Dir(path) + "/" + lib.Path
		}
		if err := ignoreMissing(safefile.Trusted(lib.Path)); err != nil {
			return err
		}
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
