package entropy

import (
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Over 64 * 2^16 bits the share of ones is within 6 standard deviations of one half: false alarm 2e-9. Words do not
// repeat (a repeated 64-bit word among 2^16 has probability 1.2e-10), within a source or between two: a reused buffer
// is caught.
func TestWordsAreFresh(t *testing.T) {
	const n = 1 << 16
	seen := make(map[uint64]bool, 2*n)
	ones := 0
	for _, s := range []*Source{New(), New()} {
		for range n {
			w := s.Uint64()
			if seen[w] {
				t.Fatalf("word %#x came twice", w)
			}
			seen[w] = true
			ones += bits.OnesCount64(w)
		}
	}
	const total = 2 * n * 64
	if z := (float64(ones) - total/2) / math.Sqrt(total/4); math.Abs(z) > 6 {
		t.Errorf("%d ones of %d bits: %.1f standard deviations off", ones, total, z)
	}
}

func TestBufferIsNotKept(t *testing.T) {
	s := New()
	s.Uint64()
	for _, b := range s.buffer[:8] {
		if b != 0 {
			t.Fatal("a word that was given out is still in the buffer")
		}
	}
}

// seeded matches what makes or uses a generator that can be replayed.
var seeded = regexp.MustCompile(`\b(NewChaCha8|NewPCG|NewSource|NewZipf)\b`)

// Production code must not be able to replace the noise: no file of a role, or of anything a role imports from this
// module, makes a seeded generator. Simulation and environment code may, and no role imports it.
func TestNoRoleCanUseASeededSource(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	const module = "github.com/riffle-dp/riffle/"
	var queue []string
	for _, role := range []string{"cmd/randomizer", "cmd/shuffler", "cmd/analyzer"} {
		if _, err := os.Stat(filepath.Join(root, role)); err != nil {
			t.Fatal(err)
		}
		queue = append(queue, role)
	}
	done := map[string]bool{}
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		if done[dir] {
			continue
		}
		done[dir] = true
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && path != filepath.Join(root, dir) {
				return filepath.SkipDir
			}
			if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
			if err != nil {
				return err
			}
			usesGenerator := false
			for _, i := range f.Imports {
				name, err := strconv.Unquote(i.Path.Value)
				if err != nil {
					return err
				}
				if name == "math/rand" || name == "math/rand/v2" {
					usesGenerator = true
				}
				if in, ok := strings.CutPrefix(name, module); ok {
					queue = append(queue, in)
				}
			}
			if m := seeded.FindString(string(text)); usesGenerator && m != "" {
				t.Errorf("%s uses %s, and a role can reach it", path, m)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
