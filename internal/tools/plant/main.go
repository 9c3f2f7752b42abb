// Plant puts errors into the kernels of the workloads, one at a time, in a copy of the
// project, and sees whether the checks and tests find them.
//
//	go run ./internal/tools/plant [-backend go,avx2,avx512,spirv] [-kernel gemm] [-o file]
//	go run ./internal/tools/plant -build folder
//	go run ./internal/tools/plant -read folder
//
// The errors are those of table.txt. Shaders need glslc and a Vulkan driver. CUDA kernels are
// run where a GPU is: -build compiles each error to PTX with clang-19 and puts it into the
// folder with a test binary and the script run.sh, which runs that with each of them; -read
// says from the logs that the script leaves there who found them.
package main

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for the table
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed table.txt
var table string

// planted is an error in a kernel of a backend: the text of a file, whose path is relative
// to folder workload, that is replaced, by its number among equals.
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

// inTurn orders errors so that every kernel has its first before any has its second, since
// a run may be ended early.
func inTurn(all []planted) {
	turns := make(map[string]int)
	turn := make([]int, len(all))
	order := make([]int, len(all))
	for i, p := range all {
		turns[p.backend+p.kernel]++
		turn[i], order[i] = turns[p.backend+p.kernel], i
	}
	slices.SortStableFunc(order, func(a, b int) int { return turn[a] - turn[b] })
	was := slices.Clone(all)
	for i, k := range order {
		all[i] = was[k]
	}
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

// folder is where the package is, relative to the folder of workloads.
func (p *planted) folder() string {
	if w := p.workload(); slices.Contains([]string{"elastic", "fold", "phase"}, w) {
		return "protein/" + w
	} else if w == "modes" {
		return "../internal/protein/network"
	} else if w == "partition" {
		return "../internal/protein/partition"
	} else if w == "ntt" || w == "msm" {
		return "zk/" + w
	} else if w == "bregman" {
		return "fisher"
	}
	return p.workload()
}

// suite is the package whose tests run the kernel on devices: workloads of another module have their own.
func (p *planted) suite() string {
	if strings.HasPrefix(p.folder(), "zk") {
		return "workload/zk"
	}
	return "workload"
}

// binary names the tests of a suite.
func binary(suite string) string { return path.Base(suite) + ".test" }

// jobTests are tests that run a workload's check on what its job computed.
const jobTests = "TestJobOnDevices|TestRowsOnDevices|TestTrainingOnDevices|TestJobSpecialValues|TestStreamJob|TestCurvesOnDevices|TestDivergencesOnDevices|TestSameBytes|TestJob"

// Tests of kernels that are to find errors, by workload.
var tests = map[string]string{
	"gemm":        "TestRowsExact|TestTile|TestRowsReference",
	"tropical":    "TestRowsExact|TestTile|TestRows|TestTrainingLearns",
	"conv":        "TestPartReference|TestPartIntegers",
	"reduce":      "TestSumOrder|TestSpecialValues|TestIntegersAreExact",
	"merkle":      "TestVectors|TestCutsDoNotChangeRoot",
	"automata":    "TestAgainstRule|TestBlocksWithHalos",
	"landscape":   "TestAgainstFullEnergy|TestPartsEqualRows",
	"reservoir":   "TestTanh|TestAgainstReference|TestCutsDoNotChangeResult|TestStream.*|TestKuramoto.*|TestRunKernel.*|TestFewKernel.*",
	"fusion":      "TestBind|TestModesAgree|TestProduct",
	"fisher":      "TestBlocksAgree|TestClosedForm",
	"bregman":     "TestDivergencesExact|TestDivergencesByDefinition|TestDivergencesOfWhat",
	"clifford":    "TestProduct|TestAxioms|TestMatrices|TestWide|TestRotor",
	"relativity":  "TestPrecession|TestFall|TestBoost|TestWide|TestCircle|TestDeflection|TestPhotonSphere|TestCaptured|TestLightCheckFinds|TestExact|TestUnfinished",
	"network":     "TestWholeWork|TestMedoidWithoutNodes|TestRanks|TestLayers|TestDistances|TestParts|TestWide|TestUnfinished|TestEveryNodeIsAMedoid|TestCheckFinds.*",
	"autodiff":    "TestClosedForms|TestDirections|TestNotFinite|TestRandomExpressions|TestWide",
	"enumerative": "TestVectors|TestLittlewoodRichardson|TestCurves",
	"elastic":     "TestWide|TestJobModes|TestJobEqual",
	"phase":       "TestWide|TestVectors|TestJobRight|TestChi|TestAllResidues|TestFar",
	"fold":        "TestForces|TestParts|TestNormal|TestFunctions|TestEnergyIsConserved|TestExchange|TestCheckFinds.*|TestCheckOfHeat|TestCheckTail|TestSplit.*|TestEqualised|TestTuned.*|TestDistances|TestHeat.*|TestSettle|TestLadder",
	"partition":   "TestDomains.*|TestCut|TestWeights|TestManyParts|TestPartitioner",
	"modes":       "TestProDy.*|TestModesDense|TestTridiagonal|TestPermuted",
	"ntt":         "TestDefinition|TestGraphs|TestPasses|TestTransformer|TestMove",
	"msm":         "TestSizes|TestSpecial|TestKnown|TestBases|TestSumInGraph",
	"zk":          "TestDevices|TestSameAsGnark",
}

// What checks say of a wrong result.
var verdicts = []string{
	"not the product", "not the max-plus product", "not the trained network", "not the convolution", "not the reduction", "not the fused records",
	"not the Fisher information", "not the divergences", "not the integral", "not the transform", "not the sum of the points", "bad proof", "not the multivectors", "not the particles", "not the numbers of the graph", "not the derivatives", "not the game's cells", "not the landscape", "not the reservoir's states", "not the modes of the network", "not the phase states", "by the definition", "not the dynamics",
}

// test tests an error in Go or assembly, in a copy of the project that has it: the job's
// check first, and what it misses with the tests of the kernel.
func (p *planted) test(root string) (out []byte, err error) {
	packages := []string{"./" + path.Join("workload", p.folder())}
	out, err = p.goTest(root, jobTests, packages)
	if err != nil && checked(string(out)) {
		return out, err
	}
	if bytes.Contains(out, []byte(noTests)) {
		out = nil // the package has no job
	}
	if strings.HasPrefix(p.file, "../internal/panel/") {
		packages = append(packages, "./internal/panel")
	}
	more, failed := p.goTest(root, tests[p.workload()], packages)
	return append(out, more...), errors.Join(err, failed)
}

// goTest runs tests of packages with the processor's abilities that the backend has. Paths
// are left out of what is compiled, which makes that the same in every copy of the project.
func (p *planted) goTest(root, names string, packages []string) ([]byte, error) {
	c := exec.Command("go", append([]string{"test", "-trimpath", "-count=1", "-vet=off", "-timeout=10m", "-run=^(" + names + ")$"}, packages...)...)
	c.Dir, c.Env = root, os.Environ()
	if env := map[string]string{"go": "GODEBUG=cpu.avx512f=off,cpu.avx2=off", "avx2": "GODEBUG=cpu.avx512f=off"}[p.backend]; env != "" {
		c.Env = append(c.Env, env)
	}
	return c.CombinedOutput()
}

// testShaders tests an error in a shader, in a copy of the project without it: the binary of
// the suite, which is built once, takes changed shaders from a folder. What the kernels' test
// misses may be in a shader for large problems, which another test runs.
func (p *planted) testShaders(root string) (out []byte, err error) {
	tests := filepath.Join(root, binary(p.suite()))
	if _, err := os.Stat(tests); err != nil {
		c := exec.Command("go", "test", "-c", "-trimpath", "-tags=lavapipe", "-o", tests, "./"+p.suite())
		c.Dir = root
		if out, err := c.CombinedOutput(); err != nil {
			return append(out, " [build failed]"...), err
		}
	}
	folder, err := os.MkdirTemp(root, "shaders")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	err = p.with(root, func(was map[string][]byte) error {
		for f := range was {
			if err := keep(f, was[f], filepath.Join(folder, filepath.Base(f))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return []byte(err.Error() + " [setup failed]"), err
	}
	const first = "TestVulkanKernels"
	for _, test := range []string{first, "TestVulkanRounds"} {
		c := exec.Command(tests, "-test.timeout=10m", "-test.run=^"+test+"$/^"+p.workload()+"(#.*)?$", "-spirv="+folder)
		c.Dir = filepath.Join(root, p.suite())
		more, err := c.CombinedOutput()
		if test != first && bytes.Contains(more, []byte(noTests)) {
			continue // the workload has no shaders for large problems
		}
		if out = append(out, more...); err != nil {
			return out, err
		}
	}
	return out, nil
}

// keep copies a compiled file to another place, decompressed, if the error changed it.
func keep(file string, was []byte, to string) error {
	now, err := os.ReadFile(file)
	if err != nil || bytes.Equal(now, was) || filepath.Ext(file) != ".spv" && filepath.Ext(file) != ".gz" {
		return err
	}
	if now, err = plain(now); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(to, now, 0o600)
}

// plain returns the content of a file, decompressed if it is compressed.
func plain(content []byte) ([]byte, error) {
	if !bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		return content, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// generated are the files that are compiled from the sources of the error's workload.
func (p *planted) generated(root string) ([]string, error) {
	kind := map[string]string{"spirv": "*.spv", "cuda": "*.ptx.gz"}[p.backend]
	if kind == "" {
		return nil, nil
	}
	return filepath.Glob(filepath.Join(root, "workload", p.folder(), kind))
}

// generate compiles the shaders or PTX of the error's workload.
func (p *planted) generate(root string) error {
	var script, sources string
	switch p.backend {
	case "spirv":
		script, sources = "spirv.sh", ".comp"
	case "cuda":
		script, sources = "ptx.sh", ".cu"
	default:
		return nil
	}
	of := p.folder() + "/*" + sources // all that may include the file
	if filepath.Ext(p.file) == sources {
		of = p.file
	}
	c := exec.Command("sh", "-c", "sh "+script+" "+of)
	c.Dir = filepath.Join(root, "workload")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// with runs a function while the error is in the copy, and gives it what the files were that
// the error may change.
func (p *planted) with(root string, do func(was map[string][]byte) error) (err error) {
	files, err := p.generated(root)
	if err != nil {
		return err
	}
	source := filepath.Join(root, "workload", p.file)
	was := make(map[string][]byte)
	for _, f := range append(files, source) {
		if was[f], err = os.ReadFile(f); err != nil {
			return err
		}
	}
	defer func() {
		for f, content := range was {
			err = errors.Join(err, os.WriteFile(f, content, 0o600))
		}
	}()
	bad, err := p.apply(string(was[source]))
	if err != nil {
		return err
	}
	if err := os.WriteFile(source, []byte(bad), 0o600); err != nil {
		return err
	}
	if err := p.generate(root); err != nil {
		return err
	}
	return do(was)
}

// Outcomes of an error.
const (
	byBoth = "check and test"
	byTest = "test"
	missed = "NOT FOUND"
)

// noTests is what Go says where no test has the name asked for.
const noTests = "no tests to run"

// checked reports whether a check found something wrong.
func checked(out string) bool {
	return slices.ContainsFunc(verdicts, func(v string) bool { return strings.Contains(out, v) })
}

// seen says who found an error in a kernel of a backend, from how a test ended.
func seen(backend, out string, failed bool) (string, error) {
	untested := []string{"[build failed]", "[setup failed]", noTests}
	// Tests of devices have a subtest for each workload; what fails before them has not
	// tested the kernel.
	before := failed && (backend == "spirv" || backend == "cuda") && !strings.Contains(out, "    --- FAIL: ") && !strings.Contains(out, "panic: test timed out")
	switch {
	case before || slices.ContainsFunc(untested, func(s string) bool { return strings.Contains(out, s) }):
		return "", fmt.Errorf("it was not tested: %s", out)
	case !failed:
		return missed, nil
	case checked(out):
		return byBoth, nil
	}
	return byTest, nil
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
	build := flag.String("build", "", "put CUDA kernels with errors and what runs them into this `folder`")
	read := flag.String("read", "", "say who found the errors of CUDA kernels, from the logs in this `folder`")
	output := flag.String("o", "", "add results to this file, and leave out the errors it has")
	flag.Parse()
	all, err := rows(table)
	switch {
	case err != nil:
	case *build != "":
		err = buildAll(all, *build)
	case *read != "":
		err = readAll(all, *read)
	default:
		inTurn(all)
		err = run(all, strings.Split(*backends, ","), *kernel, *output)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "plant:", err)
		os.Exit(1)
	}
}

// line is the beginning of an error's row in the table of results.
func (p *planted) line() string {
	return fmt.Sprintf("| %s | %s | `%s` | `%s` | `%s` | ", p.backend, p.kernel, p.file, p.old, p.new)
}

// copied makes a copy of the project, which end removes.
func copied() (root string, end func(), err error) {
	if root, err = os.MkdirTemp("", "plant"); err != nil {
		return "", nil, err
	}
	end = func() { os.RemoveAll(root) }
	if err := copyTree(root); err != nil {
		end()
		return "", nil, err
	}
	return root, end, nil
}

func run(all []planted, backends []string, kernel, output string) error {
	root, end, err := copied()
	if err != nil {
		return err
	}
	defer end()
	done, err := os.ReadFile(output)
	if err != nil && output != "" && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	counts := map[string]int{}
	for _, p := range all {
		line := p.line()
		if !slices.Contains(backends, p.backend) || !strings.HasPrefix(p.kernel, kernel) || strings.Contains(string(done), line) {
			continue
		}
		var out []byte
		if p.backend == "spirv" {
			out, err = p.testShaders(root)
		} else {
			err = p.with(root, func(map[string][]byte) (err error) {
				out, err = p.test(root)
				return err
			})
		}
		who, err := seen(p.backend, string(out), err != nil)
		if err != nil {
			who = "not tested: " + strings.ReplaceAll(err.Error(), "\n", " ")
		}
		counts[who]++
		fmt.Println(line + who + " |")
		if output == "" {
			continue
		}
		if err := appendTo(output, line+who+" |\n"); err != nil {
			return err
		}
	}
	fmt.Println(counts)
	return nil
}

// appendTo adds a line to a file.
func appendTo(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}
