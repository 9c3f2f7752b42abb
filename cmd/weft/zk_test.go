package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Keys are made, a statement is proved with them and the proof verified. What is wrong with a
// file is said in a line.
func TestZK(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(in(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	keys, proof, public := in("keys"), in("proof.bin"), in("public.json")
	if text := works(t, "zk", "setup", keys, "--circuit", "range", "--constraints", "130"); !strings.Contains(text, "They are for tests only.") {
		t.Error(text)
	}
	prove := func(dir, witness string) []string {
		return strings.Fields("zk prove " + dir + " --devices cpu/2 --calibrate off --cache-dir off --witness " + witness + " --out " + proof + " --public " + public)
	}
	verify := strings.Fields("zk verify " + keys + " --proof " + proof + " --public " + public)
	for _, witness := range []string{filepath.Join(keys, "witness.json"), put("mine.json", `{"Values": [5, "0x7"], "Sum": "12"}`)} {
		if text := works(t, prove(keys, witness)...); !strings.Contains(text, "Proved 131 constraints in ") {
			t.Error(text)
		}
		if text := works(t, verify...); text != "gnark accepts the proof.\n" {
			t.Error(text)
		}
	}
	if text, err := os.ReadFile(public); err != nil || string(text) != "{\n  \"Sum\": \"12\"\n}\n" {
		t.Errorf("%s %v", text, err)
	}
	// A circuit that gnark wrote.
	works(t, "zk", "setup", in("own"), "--r1cs", filepath.Join(keys, "circuit.r1cs"))
	works(t, prove(in("own"), in("mine.json"))...)
	fails := func(code int, says string, args ...string) {
		t.Helper()
		got, stdout, stderr := runWeft(args...)
		if got != code || stdout != "" || !strings.Contains(stderr, says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("weft %s: status %d, %q", strings.Join(args, " "), got, stderr)
		}
	}
	// That proof is of the other keys.
	fails(exitFailure, "it does not prove the circuit for these public values", verify...)
	works(t, prove(keys, in("mine.json"))...)
	put("public.json", `{"Sum": 13}`)
	fails(exitFailure, "it does not prove the circuit for these public values", verify...)
	fails(exitUsage, "it does not satisfy the circuit: constraint ", prove(keys, put("bad.json", `{"Values": [5, 8], "Sum": 12}`))...)
	fails(exitUsage, "Values_0 is not below the order of the group", prove(keys, put("bad.json", `{"Values": ["21888242871839275222246405745257275088548364400416034343698204186575808495617", 0], "Sum": 0}`))...)
	fails(exitUsage, "no value for Values_1", prove(keys, put("bad.json", `{"Values": [1], "Sum": 1}`))...)
	fails(exitUsage, "name a folder with keys; weft zk setup makes one", prove(in("none"), in("mine.json"))...)
	fails(exitUsage, "name a folder with keys; weft zk setup makes one", "zk", "verify", in("none"))
	// Many at once.
	all := in("proofs.jsonl")
	many := func(witness ...string) []string {
		return strings.Fields("zk prove " + keys + " --devices cpu/2 --calibrate off --cache-dir off --out " + all + " --witness " + strings.Join(witness, " --witness "))
	}
	lines, list := put("lines.jsonl", "{\"Values\": [5, 7], \"Sum\": 12}\n{\"Values\": [1, 2], \"Sum\": 3}\n"), put("list.json", `[{"Values": [4, 4], "Sum": 8}]`)
	for n, witness := range map[int][]string{2: {lines}, 3: {lines, list}, 4: {list, in("mine.json"), lines}} {
		if text := works(t, many(witness...)...); !strings.Contains(text, fmt.Sprintf("Proved %d witnesses of 131 constraints in ", n)) {
			t.Error(text)
		}
		if text := works(t, "zk", "verify", keys, "--proof", all); text != fmt.Sprintf("gnark accepts all %d proofs.\n", n) {
			t.Error(text)
		}
	}
	fails(exitFailure, "1 of 2 witnesses were not proved; witness 1: zk: bad witness: it does not satisfy", many(put("bad.json", `[{"Values": [5, 7], "Sum": 12}, {"Values": [5, 7], "Sum": 13}]`))...)
	if text, err := os.ReadFile(all); err != nil || strings.Count(string(text), "\n") != 2 || !strings.HasPrefix(string(text), `{"witness":0,"proof":"`) || !strings.Contains(string(text), `{"witness":1,"error":"`) {
		t.Errorf("%s %v", text, err)
	}
	fails(exitFailure, "line 2: there is no proof: zk: bad witness", "zk", "verify", keys, "--proof", all)
	fails(exitUsage, "witness 1: it has no value for Sum", many(put("bad.json", `[{"Values": [5, 7], "Sum": 12}, {}]`))...)
	fails(exitUsage, "no JSON", many(put("bad.json", `[{"Values": [5, 7], "Sum": 12} {}]`))...)
	fails(exitUsage, "has no witness", many(put("bad.json", `[]`))...)
	fails(exitUsage, "--public is for one proof", append(many(lines), "--public", public)...)
	fails(exitUsage, "there already", "zk", "setup", keys)
	fails(exitUsage, "--r1cs goes with", "zk", "setup", in("x"), "--r1cs", proof, "--circuit", "range")
	fails(exitUsage, "no circuit \"md5\"", "zk", "setup", in("x"), "--circuit", "md5")
	fails(exitUsage, "takes one folder", "zk", "verify")
	fails(exitUsage, "--witness is missing", "zk", "prove", keys)
	fails(exitUsage, "circuit.r1cs", prove(in("nothing"), in("mine.json"))...)
	// Files that cannot be written, or would be written over what is read, are refused before anything is proved.
	mine := in("mine.json")
	nowhere, folder := filepath.Join(dir, "nowhere", "file"), in("own")
	one := func(out, public string) []string {
		return strings.Fields("zk prove " + keys + " --devices nothing --calibrate off --cache-dir off --witness " + mine + " --out " + out + " --public " + public)
	}
	for _, args := range [][]string{one(nowhere, public), one(in("new.bin"), nowhere)} {
		fails(exitUsage, "nowhere", args...)
	}
	fails(exitUsage, "own is a folder", one(in("new.bin"), folder)...)
	fails(exitUsage, "would be written over", one(in("same"), filepath.Join(dir, ".", "same"))...)
	if err := os.Symlink("same", in("link")); err != nil {
		t.Fatal(err)
	}
	fails(exitUsage, "would be written over", one(in("same"), in("link"))...)
	fails(exitUsage, "would be written over", one(filepath.Join(keys, "proving.key"), public)...)
	fails(exitUsage, "would be written over", one(mine, public)...)
	fails(exitUsage, "would be written over", one(proof, mine)...)
	if _, err := os.Stat(in("new.bin")); err == nil {
		t.Error("a file for a proof was left behind")
	}
	fails(exitUsage, "witness.json is there already", "zk", "setup", filepath.Dir(put("own2/witness.json", "{}")))
	fails(exitUsage, "keys cannot be written to "+filepath.Join(mine, "x"), "zk", "setup", filepath.Join(mine, "x"))
	works(t, "zk", "setup", in("other"), "--circuit", "range", "--constraints", "195")
	key, err := os.ReadFile(filepath.Join(in("other"), "proving.key"))
	if err != nil {
		t.Fatal(err)
	}
	put("keys/proving.key", string(key))
	fails(exitUsage, "another circuit", prove(keys, in("mine.json"))...)
}

// What gnark logs is not among the reports of the command. It logs nothing in programs whose name ends in .test.
func TestZKLogsNothing(t *testing.T) {
	c := exec.Command(os.Args[0], "zk", "setup", filepath.Join(t.TempDir(), "keys"), "--constraints", "1")
	c.Args[0], c.Env = "weft", append(os.Environ(), "WEFT_TEST_MAIN=1")
	out, err := c.CombinedOutput()
	if err != nil || strings.Count(string(out), "\n") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}
