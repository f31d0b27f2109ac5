package web

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// consumer is what an app writes. It is only compiled.
const consumer = `import { Riffle, RiffleError, type Decision, type Options } from "@riffle/device";

export async function choose(options: Options): Promise<string | undefined> {
  try {
    const riffle = await Riffle.open(options);
    const decision: Decision = await riffle.decide(async () => ({ context: { hour: 9 }, arms: [{ id: "walk" }, { id: "swim" }] }));
    if (decision.reason === "spent") console.log((await riffle.ledger()).words);
    await riffle.reward(decision, 1);
    return decision.id;
  } catch (e) {
    return e instanceof RiffleError ? e.reason : undefined;
  }
}
`

// shown is the README's example, with what an app has around it.
func shown(t *testing.T) string {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "```ts\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the README has no example")
	}
	return example + "declare const bundle: import(\"@riffle/device\").Bundle;\n" +
		"declare function show(arm: number): void;\n"
}

// The same sources give the same package, byte for byte, and npm installs it without a network, with its types.
func TestThePackageInstalls(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("NOT TESTED: there is no npm here")
	}
	wasm, err := filepath.Glob(filepath.Join(built(t), "*.wasm"))
	if err != nil || len(wasm) != 1 {
		t.Fatal(wasm, err)
	}
	run := func(dir, program string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", program, args, err, said)
		}
	}
	again := t.TempDir()
	run("..", "go", "run", "./build", "-core", wasm[0], "-out", again)
	const name = "riffle-device-0.0.0.tgz"
	one, err := os.ReadFile(filepath.Join(built(t), "..", name))
	if err != nil {
		t.Fatal(err)
	}
	if two, err := os.ReadFile(filepath.Join(again, name)); err != nil || !bytes.Equal(one, two) {
		t.Fatalf("a second build of the same sources differs: %v", err)
	}

	app := t.TempDir()
	for file, text := range map[string]string{"package.json": `{"private":true,"type":"module"}`, "app.ts": consumer,
		"readme.ts": shown(t)} {
		if err := os.WriteFile(filepath.Join(app, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(app, npm, "install", "--offline", "--no-audit", "--no-fund", filepath.Join(again, name))
	for _, way := range [][]string{{"ES2022", "node"}, {"nodenext", "nodenext"}} {
		run(app, "tsc", "--strict", "--noEmit", "--target", "ES2022", "--module", way[0], "--moduleResolution", way[1],
			"app.ts", "readme.ts")
	}
}

// The package holds the licences of Riffle, of Go and of every module that the linker says is in the core.
func TestThePackageHasALicenceOfWhatIsInTheCore(t *testing.T) {
	file, err := os.Open(filepath.Join(built(t), "..", "riffle-device-0.0.0.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var core, texts, own []byte
	for r := tar.NewReader(unzipped); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case filepath.Ext(h.Name) == ".wasm":
			core = b
		case h.Name == "package/dist/third-party-licences.txt":
			texts = b
		case h.Name == "package/LICENSE":
			own = b
		}
	}
	if !bytes.Contains(own, []byte("Apache License")) || !bytes.Contains(texts, []byte("\n==== Go go1.")) {
		t.Error("the package has no licence of Riffle or of Go")
	}
	modules := regexp.MustCompile("\ndep\t([^\t\n]+)\t([^\t\n]+)").FindAllSubmatch(core, -1)
	if len(modules) == 0 {
		t.Fatal("the core names no module")
	}
	for _, m := range modules {
		if !bytes.Contains(texts, fmt.Appendf(nil, "\n==== %s %s: ", m[1], m[2])) {
			t.Errorf("the package has no licence of %s %s, which is in the core", m[1], m[2])
		}
	}
}
