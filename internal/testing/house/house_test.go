package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	module  = "github.com/riffle-dp/riffle/"
	root    = "../../.."
	mapPage = root + "/docs/architecture.md"
)

// Package is what `go list` tells of a package.
type Package struct {
	ImportPath string
	Dir        string
	Doc        string // the first sentence of the package's comment
	GoFiles    []string
	CgoFiles   []string
	Imports    []string // by files that are no tests
	Deps       []string

	TestImports, XTestImports []string
}

// path is the package's folder below the top of the repository.
func (p Package) path() string { return strings.TrimPrefix(p.ImportPath, module) }

var packages = sync.OnceValues(func() ([]Package, error) {
	list := exec.Command("go", "list", "-deps=false",
		"-json=ImportPath,Dir,Doc,GoFiles,CgoFiles,Imports,Deps,TestImports,XTestImports", "./...")
	list.Dir, list.Env = root, append(os.Environ(), "CGO_ENABLED=1") // the C library too, however this test is compiled
	out, err := list.Output()
	if err != nil {
		return nil, err
	}
	var all []Package
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

// every calls f with each package that has production files.
func every(t *testing.T, f func(p Package)) {
	t.Helper()
	all, err := packages()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Fatalf("go list finds %d packages only", len(all))
	}
	for _, p := range all {
		f(p)
	}
}

// below reports whether a package lies in a folder of the repository.
func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// layers are the rules of who may import whom, as a test of the importing and the imported package's path. Both are
// below the top of the repository.
var layers = map[string]func(from, to string) bool{
	"pkg is pure: it imports nothing of internal": func(from, to string) bool {
		return below(from, "pkg") && !below(to, "pkg")
	},
	"only tests link what is generated from the schema": func(_, to string) bool { return below(to, "messages") },
	"production does not import what only tests use": func(from, to string) bool {
		return below(to, "internal/testing") && !below(from, "internal/testing")
	},
	"no role imports another": func(from, to string) bool {
		return role(from) != "" && role(to) != "" && role(from) != role(to)
	},
	"the bus knows no role and not the start-up shell": func(from, to string) bool {
		return below(from, "internal/bus") && (role(to) != "" || below(to, "internal/role"))
	},
	"the service imports nothing of the laboratory": func(from, to string) bool {
		return below(to, "lab") && !below(from, "lab")
	},
	"a role does not link the embedded broker or the load generator": func(from, to string) bool {
		return role(from) != "" && (below(to, "internal/broker") || below(to, "internal/drive"))
	},
	"nothing imports a command": func(from, to string) bool { return below(to, "cmd") || below(to, "lab/cmd") },
}

// role is the role that a package belongs to, or nothing.
func role(path string) string {
	for _, r := range []string{"internal/randomizer", "internal/shuffler", "internal/analyzer",
		"internal/ingress", "internal/issuer"} {
		if below(path, r) {
			return r
		}
	}
	return ""
}

// Tests of the service import nothing of the laboratory either, so that it can become a module of its own.
func TestImportsRunOneWay(t *testing.T) {
	every(t, func(p Package) {
		for _, imported := range append(slices.Clone(p.TestImports), p.XTestImports...) {
			if to := strings.TrimPrefix(imported, module); below(to, "lab") && !below(p.path(), "lab") {
				t.Errorf("a test of %s imports %s of the laboratory", p.path(), to)
			}
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			for rule, broken := range layers {
				if broken(p.path(), to) {
					t.Errorf("%s imports %s: %s", p.path(), to, rule)
				}
			}
		}
	})
}

// The binaries of the roles are what people must trust and ship: they hold no broker, no plots and no test code.
func TestRolesLinkOnlyWhatTheyNeed(t *testing.T) {
	roles := 0
	every(t, func(p Package) {
		switch p.path() {
		case "cmd/randomizer", "cmd/shuffler", "cmd/analyzer", "cmd/ingress", "cmd/issuer":
		default:
			return
		}
		roles++
		for _, d := range p.Deps {
			for _, no := range []string{
				"github.com/nats-io/nats-server", "gonum.org/v1/plot", "testing", "pgregory.net/rapid",
				module + "internal/testing", module + "lab", module + "internal/drive", module + "internal/broker",
			} {
				if below(d, no) {
					t.Errorf("%s links %s", p.path(), d)
				}
			}
		}
	})
	if roles != 5 {
		t.Errorf("%d of 5 roles were looked at", roles)
	}
}

// roomOf is the room that a package lies in: a folder directly below cmd, internal, pkg or lab, or a folder at the top.
func roomOf(path string) string {
	top, rest, below := strings.Cut(path, "/")
	if !below || !slices.Contains([]string{"cmd", "internal", "pkg", "lab"}, top) {
		return top
	}
	name, _, _ := strings.Cut(rest, "/")
	return top + "/" + name
}

// The map names every room once and nothing else, and every file that it names is there. Every package says what it is.
func TestTheMapNamesEveryRoom(t *testing.T) {
	text, err := os.ReadFile(mapPage)
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| room | what it holds |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var named []string
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			named = append(named, m[1])
		}
	}
	there := map[string]bool{}
	every(t, func(p Package) {
		if p.Doc == "" && !below(p.path(), "messages") {
			t.Errorf("%s has no package comment", p.path())
		}
		there[roomOf(p.path())] = true
	})
	delete(there, "deploy") // its programs test the deployment
	for room := range there {
		if n := count(named, room); n != 1 {
			t.Errorf("docs/architecture.md names the room %s %d times", room, n)
		}
	}
	for _, room := range named {
		if _, err := os.Stat(filepath.Join(root, room)); err != nil {
			t.Errorf("docs/architecture.md names %s, which is no room", room)
		}
	}
	pattern := regexp.MustCompile("`((?:pkg|internal|cmd|lab|messages)/[\\w/.-]+)`")
	for _, file := range pattern.FindAllStringSubmatch(string(text), -1) {
		if _, err := os.Stat(filepath.Join(root, file[1])); err != nil {
			t.Errorf("docs/architecture.md names a file that is not there: %v", err)
		}
	}
}

// The map's glossary has at most 40 lines, and each word once.
func TestTheMapSaysWhatWordsMean(t *testing.T) {
	text, err := os.ReadFile(mapPage)
	if err != nil {
		t.Fatal(err)
	}
	_, glossary, found := strings.Cut(string(text), "\n| word | meaning |\n|---|---|\n")
	lines := strings.Split(strings.TrimSpace(glossary), "\n")
	if !found || len(lines) < 20 || len(lines) > 40 {
		t.Errorf("the glossary has %d lines, want 20 to 40", len(lines))
	}
	var words []string
	for _, line := range lines {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, w := range strings.Split(first, ", ") {
			if slices.Contains(words, w) {
				t.Errorf("docs/architecture.md says twice what %q means", w)
			}
			words = append(words, w)
		}
	}
}

// In the picture of the map a room imports only rooms on lines below its own, so that it can be read downwards.
func TestThePictureShowsWhatImportsWhat(t *testing.T) {
	text, err := os.ReadFile(mapPage)
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(text), "```text unchecked\n")
	picture, _, _ = strings.Cut(picture, "```")
	line := map[string]int{}
	for i, l := range strings.Split(picture, "\n") {
		for _, room := range regexp.MustCompile(`\b(cmd|internal|pkg)/\w+`).FindAllString(l, -1) {
			if line[room] != 0 {
				t.Errorf("%s occurs twice in the picture", room)
			}
			line[room] = i + 1
		}
	}
	room := func(path string) string { return strings.Join(strings.SplitN(path, "/", 3)[:2], "/") }
	unshown := []string{"cmd/door", "cmd/healthcheck", "internal/testing"} // programs of images; tests
	every(t, func(p Package) {
		if !below(p.path(), "cmd") && !below(p.path(), "internal") && !below(p.path(), "pkg") {
			return
		}
		from := room(p.path())
		if slices.Contains(unshown, from) {
			return
		}
		if line[from] == 0 {
			t.Errorf("%s is not in the picture", from)
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module)
			if !ours || below(to, "messages") || room(to) == from {
				continue
			}
			if to = room(to); line[to] <= line[from] {
				t.Errorf("%s imports %s, which is not below it in the picture", p.path(), to)
			}
		}
	})
}

func count(all []string, one string) (n int) {
	for _, s := range all {
		if s == one {
			n++
		}
	}
	return n
}

// A newcomer must see through the house: few rooms, few arrows between them.
func TestTheHouseStaysSmall(t *testing.T) {
	const maxRooms, maxArrows = 26, 76
	room := func(path string) string {
		name, ours := strings.CutPrefix(path, "internal/")
		if !ours {
			return ""
		}
		name, _, _ = strings.Cut(name, "/")
		return name
	}
	rooms, arrows := map[string]bool{}, map[[2]string]bool{}
	every(t, func(p Package) {
		if from := room(p.path()); from != "" {
			rooms[from] = true
			for _, imported := range p.Imports {
				if to := room(strings.TrimPrefix(imported, module)); to != "" && to != from {
					arrows[[2]string{from, to}] = true
				}
			}
		}
	})
	if len(rooms) > maxRooms {
		t.Errorf("internal has %d rooms, at most %d", len(rooms), maxRooms)
	}
	if len(arrows) > maxArrows {
		t.Errorf("%d arrows between the rooms of internal, at most %d", len(arrows), maxArrows)
	}
	t.Logf("%d rooms, %d arrows", len(rooms), len(arrows))
}
