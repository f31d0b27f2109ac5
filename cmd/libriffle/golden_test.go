//go:build cgo

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// vector is one of pkg/device/testdata/vectors.json, whose test says what its parts are.
type vector struct {
	Channel                            plan.Channel
	Asks                               statistic.Kind
	Registration, Confirmed            []byte
	Config, Arms, Answer, Decision     json.RawMessage
	Announcement, Keys, Request, Reply []byte
	Reward                             float64
	Report, Record                     string
	Epsilon                            float64
}

func vectors() (all []vector) {
	if err := json.Unmarshal(must(os.ReadFile("../../pkg/device/testdata/vectors.json")), &all); err != nil {
		panic(err)
	}
	return all
}

// seeded is a file that is put into package crypto/rand, by the builds of this test alone (go build -overlay): the
// stream is that of testing/cryptotest with the vectors' seed. No file, build tag, flag or variable of this repository
// can put it there otherwise.
const seeded = `package rand

import "math/rand/v2"

func init() {
	Reader = rand.NewChaCha8([32]byte{7})
}
`

// overlay is the flag that has a build take its randomness from the seed.
func overlay(t *testing.T, folder string) string {
	t.Helper()
	root := strings.TrimSpace(run(t, "go", "env", "GOROOT"))
	file, list := filepath.Join(folder, "seeded.go"), filepath.Join(folder, "overlay.json")
	replace := map[string]map[string]string{"Replace": {filepath.Join(root, "src/crypto/rand/seeded.go"): file}}
	for name, b := range map[string][]byte{file: []byte(seeded), list: must(json.Marshal(replace))} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return "-overlay=" + list
}

// One seed gives the same bytes through the C library, and through the wasm under node, as in Go (pkg/device). The same
// libraries as they are released have fresh randomness in each run.
func TestGoldenVectorsInCAndJavaScript(t *testing.T) {
	gcc, node := tool(t, "gcc"), tool(t, "node")
	folder := t.TempDir()
	root := strings.TrimSpace(run(t, "go", "env", "GOROOT"))
	inC := func(name string, flags ...string) []string {
		of := filepath.Join(folder, name)
		if err := os.MkdirAll(of, 0o700); err != nil {
			t.Fatal(err)
		}
		library, program := filepath.Join(of, "libriffle.so"), filepath.Join(of, "golden")
		run(t, "go", slices.Concat([]string{"build", "-buildmode=c-shared", "-o", library}, flags, []string{"."})...)
		run(t, gcc, "-Wall", "-Werror", "-I", of, "-o", program, filepath.Join("testdata", "golden.c"), library,
			"-Wl,-rpath,"+of)
		return []string{program}
	}
	inJavaScript := func(name string, flags ...string) []string {
		wasm := filepath.Join(folder, name+".wasm")
		arguments := slices.Concat([]string{"build", "-ldflags=-s -w", "-o", wasm}, flags, []string{"."})
		build := exec.Command("go", arguments...)
		build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return []string{node, filepath.Join("testdata", "golden.js"), root, wasm}
	}
	with := overlay(t, folder)
	for language, build := range map[string]func(string, ...string) []string{"C": inC, "JavaScript": inJavaScript} {
		program := build("seeded", with)
		for _, v := range vectors() {
			name := fmt.Sprintf("%s, %s, asks %q", language, v.Channel, v.Asks)
			t.Run(name, func(t *testing.T) { v.check(t, program) })
		}
		t.Run(language+" as released", func(t *testing.T) {
			v, program := vectors()[0], build("released")
			once, _ := v.live(t, program) // the reply that it is given is to another request
			twice, _ := v.live(t, program)
			if len(once["request"]) != len(v.Request) || bytes.Equal(once["request"], twice["request"]) ||
				bytes.Equal(once["request"], v.Request) {
				t.Errorf("the released library repeats a request, or makes none: %x, %x", once["request"],
					twice["request"])
			}
		})
	}
}

// live has a program live the vector's life, and is what it made, by name, until it failed.
func (v vector) live(t *testing.T, program []string) (made map[string][]byte, err error) {
	t.Helper()
	folder := t.TempDir()
	given := map[string][]byte{"config": v.Config, "announcement": v.Announcement, "keys": v.Keys, "reply": v.Reply,
		"arms": v.Arms, "reward": strconv.AppendFloat(nil, v.Reward, 'g', -1, 64)}
	if v.Confirmed != nil {
		given["confirmed"] = v.Confirmed
	}
	for name, b := range given {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(program[0], append(program[1:], folder)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	made = map[string][]byte{}
	for _, name := range []string{"registration", "request", "answer", "decision", "saved", "report", "status"} {
		if b, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
			made[name] = b
		}
	}
	return made, err
}

func (v vector) check(t *testing.T, program []string) {
	made, err := v.live(t, program)
	if err != nil {
		t.Fatal(err)
	}
	compact := func(b []byte) []byte {
		var out bytes.Buffer
		if err := json.Compact(&out, b); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	hashed := func(b []byte) []byte {
		sum := sha256.Sum256(b)
		return []byte(hex.EncodeToString(sum[:]))
	}
	var saved struct{ Record []byte }
	if err := json.Unmarshal(made["saved"], &saved); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string][2][]byte{
		"registration": {v.Registration, made["registration"]},
		"request":      {v.Request, made["request"]}, "answer": {compact(v.Answer), made["answer"]},
		"decision": {compact(v.Decision), made["decision"]},
		"record":   {[]byte(v.Record), hashed(saved.Record)},
		"report":   {[]byte(v.Report), hashed(made["report"])},
	} {
		if !bytes.Equal(of[0], of[1]) {
			t.Errorf("the %s is\n%x\nand should be\n%x", name, of[1], of[0])
		}
	}
	var status device.Status
	if err := json.Unmarshal(made["status"], &status); err != nil || math.Abs(status.Epsilon/v.Epsilon-1) > 1e-11 {
		t.Errorf("epsilon %v, and should be %v (%v)", status.Epsilon, v.Epsilon, err)
	}
}
