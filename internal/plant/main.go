// Plant puts errors into the kernels of the workloads, one at a time, in a copy of the
// project, and sees whether the checks and tests find them.
//
//	go run ./internal/plant [-backend go,avx2,avx512,spirv] [-kernel gemm] [-o file]
//	go run ./internal/plant -backend cuda -build folder
//
// The errors are those of table.txt. With -build, nothing is run: a weft command with each
// error is built into the folder, and a script run.sh beside them that runs them all on a
// machine with the GPU. Shaders need glslc and a Vulkan driver, CUDA kernels clang-19.
package main

import (
	_ "embed" // for the table
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed table.txt
var table string

// planted is an error in a kernel of a backend: the text of a file under workload that is
// replaced, by its number among equals.
type planted struct {
	backend, kernel, file string
	nth                   int
	old, new              string
}

// rows reads the table.
func rows(text string) (out []planted, err error) {
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, " ;; ")
		if len(f) != 5 {
			return nil, fmt.Errorf("line %d of the table has %d fields, want 5", n+1, len(f))
		}
		p := planted{backend: f[0], kernel: f[1], file: f[2], nth: 1, old: f[3], new: f[4]}
		if file, nth, ok := strings.Cut(p.file, "@"); ok {
			p.file = file
			if p.nth, err = strconv.Atoi(nth); err != nil {
				return nil, fmt.Errorf("line %d of the table: %w", n+1, err)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// apply returns a source with the error in it.
func (p *planted) apply(source string) (string, error) {
	at := 0
	for n := 1; ; n++ {
		i := strings.Index(source[at:], p.old)
		if i < 0 {
			return "", fmt.Errorf("%s has %q %d times, not %d", p.file, p.old, n-1, p.nth)
		}
		if at += i; n == p.nth {
			return source[:at] + p.new + source[at+len(p.old):], nil
		}
		at += len(p.old)
	}
}

// workload is the package whose job runs the kernel.
func (p *planted) workload() string { return strings.Split(p.kernel, ".")[0] }

// Tests of kernels and jobs that are to find errors, by workload.
var tests = map[string]string{
	"gemm":      "TestRowsExact|TestTile|TestJobOnDevices",
	"tropical":  "TestRowsExact|TestTile|TestJobOnDevices|TestTrainingOnDevices",
	"conv":      "TestPartReference|TestPartIntegers|TestJobOnDevices|TestRowsOnDevices",
	"reduce":    "TestSumOrder|TestSpecialValues|TestIntegersAreExact|TestJobOnDevices",
	"merkle":    "TestVectors|TestCutsDoNotChangeRoot|TestJobOnDevices",
	"automata":  "TestAgainstRule|TestBlocksWithHalos|TestJobOnDevices",
	"landscape": "TestAgainstFullEnergy|TestPartsEqualRows|TestJobOnDevices",
	"reservoir": "TestTanh|TestAgainstReference|TestCutsDoNotChangeResult|TestJobOnDevices|TestStream.*",
	"fusion":    "TestBind|TestJobOnDevices",
	"fisher":    "TestJobOnDevices",
}

// What checks say of a wrong result.
var verdicts = []string{
	"not the product", "not the max-plus product", "not the trained network", "not the convolution", "not the reduction", "not the fused records",
	"not the Fisher information", "not the game's cells", "not the landscape", "not the reservoir's states", "by the definition",
}

// command is what tests the error, in a copy of the project.
func (p *planted) command() *exec.Cmd {
	args := []string{"test", "-count=1", "-vet=off", "-timeout=10m"}
	var env string
	switch p.backend {
	case "spirv":
		args = append(args, "-tags=lavapipe", "-run=^TestVulkanKernels$/^"+p.workload()+"(#.*)?$", "./workload")
	default:
		if strings.HasPrefix(p.file, "gemm/panel/") {
			args = append(args, "./workload/gemm/panel")
		}
		args = append(args, "-run=^("+tests[p.workload()]+")$", "./workload/"+p.workload())
		env = map[string]string{"go": "GODEBUG=cpu.avx512f=off,cpu.avx2=off", "avx2": "GODEBUG=cpu.avx512f=off"}[p.backend]
	}
	c := exec.Command("go", args...)
	c.Env = os.Environ()
	if env != "" {
		c.Env = append(c.Env, env)
	}
	return c
}

// regenerate compiles the shaders or PTX that a source belongs to.
func (p *planted) regenerate(root string) error {
	var c *exec.Cmd
	switch p.backend {
	case "spirv":
		c = exec.Command("sh", "-c", `for f in */*.comp; do (cd $(dirname $f) && sh ../spirv.sh $(basename $f)) || exit 1; done`)
		if dir := filepath.Dir(p.file); strings.HasSuffix(p.file, ".comp") {
			c = exec.Command("sh", "-c", "cd "+dir+" && sh ../spirv.sh "+filepath.Base(p.file))
		}
	case "cuda":
		c = exec.Command("sh", "-c", `sh ptx.sh */*.cu`)
	default:
		return nil
	}
	c.Dir = filepath.Join(root, "workload")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// with runs a function while the error is in the copy.
func (p *planted) with(root string, do func() error) error {
	file := filepath.Join(root, "workload", p.file)
	was, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	bad, err := p.apply(string(was))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
		return err
	}
	err = p.regenerate(root)
	if err == nil {
		err = do()
	}
	return errors.Join(err, os.WriteFile(file, was, 0o600), p.regenerate(root))
}

// Outcomes of an error.
const (
	byBoth = "check and test"
	byTest = "test"
	missed = "NOT FOUND"
)

// seen says who found the error, from how a test ended.
func seen(out string, failed bool) (string, error) {
	switch {
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") || strings.Contains(out, "no tests to run"):
		return "", fmt.Errorf("it was not tested: %s", out)
	case !failed:
		return missed, nil
	case slices.ContainsFunc(verdicts, func(v string) bool { return strings.Contains(out, v) }):
		return byBoth, nil
	}
	return byTest, nil
}

// jobs are arguments of weft run for every workload, by which a GPU's kernels are
// checked.
var jobs = map[string]string{
	"gemm": "gemm --m 300 --k 130 --n 270", "tropical": "tropical --m 300 --k 130 --n 270", "conv": "conv --batch 3 --channels 5 --filters 70",
	"reduce": "reduce --n 1000003", "merkle": "merkle --leaves 300001", "automata": "automata --rows 301 --cols 2112 --steps 21",
	"landscape": "landscape", "reservoir": "reservoir --batch 100 --steps 5", "fusion": "fusion --records 10003 --bind", "fisher": "fisher --points 1003",
}

// copyTree copies the project, without what git keeps.
func copyTree(to string) error {
	return filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git" && path != ".":
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		from, err := os.Open(path)
		if err != nil {
			return err
		}
		defer from.Close()
		out, err := os.Create(filepath.Join(to, path))
		if err != nil {
			return err
		}
		_, err = io.Copy(out, from)
		return errors.Join(err, out.Close())
	})
}

func main() {
	backends := flag.String("backend", "go,avx2,avx512,spirv", "backends whose kernels get errors")
	kernel := flag.String("kernel", "", "only kernels whose name begins so")
	build := flag.String("build", "", "build a weft command with each error into this `folder` instead")
	output := flag.String("o", "", "add results to this file, and leave out the errors it has")
	flag.Parse()
	if err := run(strings.Split(*backends, ","), *kernel, *build, *output); err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
		os.Exit(1)
	}
}

func run(backends []string, kernel, build, output string) error {
	all, err := rows(table)
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "plant")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := copyTree(root); err != nil {
		return err
	}
	done, err := os.ReadFile(output)
	if err != nil && output != "" && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	counts := map[string]int{}
	for i, p := range all {
		line := fmt.Sprintf("| %s | %s | `%s` | `%s` | `%s` | ", p.backend, p.kernel, p.file, p.old, p.new)
		if !slices.Contains(backends, p.backend) || !strings.HasPrefix(p.kernel, kernel) || strings.Contains(string(done), line) {
			continue
		}
		if build != "" {
			if err := p.with(root, func() error { return p.build(root, build, i) }); err != nil {
				return fmt.Errorf("%s, %s: %w", p.backend, p.kernel, err)
			}
			continue
		}
		var who string
		err := p.with(root, func() error {
			c := p.command()
			c.Dir = root
			out, err := c.CombinedOutput()
			who, err = seen(string(out), err != nil)
			return err
		})
		if err != nil {
			who = "not tested: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		counts[who]++
		fmt.Println(line + who + " |")
		if output == "" {
			continue
		}
		if err := appendTo(output, line+who+" |\n", 0o600); err != nil {
			return err
		}
	}
	fmt.Println(counts)
	return nil
}

// appendTo adds a line to a file.
func appendTo(file, line string, mode fs.FileMode) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// build builds weft with the error, and adds its run to the folder's script.
func (p *planted) build(root, folder string, i int) error {
	to, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	name := fmt.Sprintf("%03d-%s", i, p.kernel)
	c := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(to, name), "./cmd/weft")
	c.Dir, c.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	script := fmt.Sprintf("if ./%s run %s --devices cuda:0 --repeat 1 --check --calibrate=off >/dev/null 2>&1; then echo '%s: NOT FOUND'; else echo '%s: found'; fi\n",
		name, jobs[p.workload()], name, name)
	return appendTo(filepath.Join(to, "run.sh"), script, 0o700)
}
