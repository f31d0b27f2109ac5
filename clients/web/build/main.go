// Command build makes the npm package of the web client: from the module's folder,
//
//	go run ./build -version 1.2.3
//
// writes dist/, which a web server can serve as it is, and riffle-device-1.2.3.tgz, which "npm install ./FILE" takes
// without a network. It needs Go and tsc (Debian: node-typescript). The same sources give the same bytes. It fails where
// the shell is larger than a page should load; a test holds that the core is not.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/evanw/esbuild/pkg/api"
)

// maxShell is most bytes that index.js, worker.js and service-worker.js have together, compressed with brotli.
const maxShell = 15_000

// coreEnviron is what the core is built for.
var coreEnviron = []string{"GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS="}

func main() {
	version := flag.String("version", "0.0.0", "version of the package, as MAJOR.MINOR.PATCH")
	out := flag.String("out", ".", "folder to write dist/ and the package to")
	core := flag.String("core", "", "a wasm core to pack; empty: it is built")
	flag.Parse()
	if err := build(*version, *out, *core, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

// build writes dist/ and the package, and says how large they are.
func build(version, out, core string, say io.Writer) error {
	dist := filepath.Join(out, "dist")
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	wasm, err := compile(core)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(wasm)
	coreFile := "riffle-" + hex.EncodeToString(sum[:8]) + ".wasm"
	files := map[string][]byte{coreFile: wasm}
	if err := bundle(files, coreFile, base64.StdEncoding.EncodeToString(sum[:])); err != nil {
		return err
	}
	if err := declare(files); err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "NOTICE", "README.md"} {
		from := name
		if name != "README.md" {
			from = filepath.Join("..", "..", name)
		}
		if files["../"+name], err = os.ReadFile(from); err != nil {
			return err
		}
	}
	if files["third-party-licences.txt"], err = licences(); err != nil {
		return err
	}
	shell := 0
	integrity := map[string]string{}
	for _, name := range sorted(files) {
		is, digest := filepath.Ext(name), sha512.Sum384(files[name])
		if is == ".js" || is == ".wasm" {
			integrity[name] = "sha384-" + base64.StdEncoding.EncodeToString(digest[:])
		}
		if is == ".js" {
			small := squeezed(files[name])
			fmt.Fprintf(say, "%s: %d bytes, %d with brotli\n", name, len(files[name]), small)
			shell += small
		}
	}
	if fmt.Fprintf(say, "shell: %d bytes with brotli\n", shell); shell > maxShell {
		return fmt.Errorf("the shell has %d bytes with brotli, at most %d are for a page", shell, maxShell)
	}
	files["integrity.json"] = document(integrity)
	for name, b := range files {
		if !strings.HasPrefix(name, "../") {
			if err := os.WriteFile(filepath.Join(dist, name), b, 0o644); err != nil {
				return err
			}
		}
	}
	return pack(files, version, out)
}

// compile builds the core.
func compile(core string) ([]byte, error) {
	if core != "" {
		return os.ReadFile(core)
	}
	folder, err := os.MkdirTemp("", "riffle-core")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "riffle.wasm")
	err = run(exec.Command("go", "build", "-C", filepath.Join("..", ".."), "-trimpath", "-buildvcs=false",
		"-ldflags=-s -w", "-gcflags=all=-l", "-o", path, "./cmd/libriffle"),
		coreEnviron...)
	if err != nil {
		return nil, err
	}
	module, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return joined(module)
}

// licences are those of what the core holds that is not Riffle's. They are in dist/, so that they are served with it.
func licences() ([]byte, error) {
	cmd := exec.Command(filepath.Join("..", "..", "deploy", "licences"), "./cmd/libriffle")
	cmd.Env, cmd.Stderr = append(os.Environ(), coreEnviron...), os.Stderr
	return cmd.Output()
}

// bundle adds what TypeScript becomes: one module for the page, and one each for the worker and the service worker.
func bundle(files map[string][]byte, core, digest string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	r := api.Build(api.BuildOptions{
		EntryPoints: []string{"src/index.ts", "src/worker.ts", "src/service-worker.ts"},
		Bundle:      true, MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		Format: api.FormatESModule, Target: api.ES2022, Outdir: "dist", Charset: api.CharsetUTF8,
		Alias:  map[string]string{"wasm_exec": filepath.Join(strings.TrimSpace(string(root)), "lib/wasm/wasm_exec.js")},
		Define: map[string]string{"WASM_FILE": fmt.Sprintf("%q", core), "WASM_SHA256": fmt.Sprintf("%q", digest)},
		Banner: map[string]string{
			"js": "/*! Riffle, Apache-2.0; wasm_exec.js of Go, BSD-3-Clause: see third-party-licences.txt */",
		},
	})
	if len(r.Errors) > 0 {
		return fmt.Errorf("%s", strings.Join(api.FormatMessages(r.Errors, api.FormatMessagesOptions{}), "\n"))
	}
	for _, f := range r.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return nil
}

// declare adds the types of what a page imports, as tsc writes them.
func declare(files map[string][]byte) error {
	folder, err := os.MkdirTemp("", "riffle-types")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := run(exec.Command("tsc", "-p", ".", "--outDir", folder)); err != nil {
		return err
	}
	made, err := filepath.Glob(filepath.Join(folder, "*.d.ts"))
	for _, path := range made {
		if err == nil {
			files[filepath.Base(path)], err = os.ReadFile(path)
		}
	}
	return err
}

// pack writes the package: what npm calls a tarball.
func pack(files map[string][]byte, version, out string) error {
	manifest := document(map[string]any{
		"name": "@riffle/device", "version": version, "license": "Apache-2.0", "type": "module",
		"description": "Decides in the page which option works for whom; context and reward stay in the browser.",
		"repository":  "github:riffle-dp/riffle",
		"main":        "./dist/index.js", "types": "./dist/index.d.ts", "sideEffects": false,
		"exports": map[string]any{
			".": struct { // TypeScript takes the first that it knows
				Types   string `json:"types"`
				Default string `json:"default"`
			}{"./dist/index.d.ts", "./dist/index.js"},
			"./service-worker.js": "./dist/service-worker.js",
			"./dist/*":            "./dist/*",
		},
	})
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	all := map[string][]byte{"package/package.json": manifest}
	for name, b := range files {
		all[filepath.Join("package/dist", name)] = b
	}
	w := tar.NewWriter(zip)
	for _, name := range sorted(all) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(all[name])), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(all[name]); err != nil {
			return err
		}
	}
	if err := cmp.Or(w.Close(), zip.Close()); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "riffle-device-"+version+".tgz"), packed.Bytes(), 0o644)
}

// document is JSON as people read it, with its keys in order.
func document(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // of maps and strings
	}
	return append(b, '\n')
}

func squeezed(b []byte) int {
	var out bytes.Buffer
	w := brotli.NewWriterLevel(&out, brotli.BestCompression)
	if _, err := w.Write(b); err != nil {
		panic(err) // a buffer takes all
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Len()
}

func sorted(files map[string][]byte) []string {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func run(cmd *exec.Cmd, environ ...string) error {
	cmd.Env = append(os.Environ(), environ...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd.Args[0], err, said)
	}
	return nil
}
