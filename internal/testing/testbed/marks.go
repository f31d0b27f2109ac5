package testbed

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Mark is one way of writing a number down.
type Mark struct {
	What  string
	Bytes []byte
}

// Marks are the ways in which a recognisable number could be written where it must not be: as text in any format, as
// the bytes of a float, as the digits of these bytes. The number should have at least 9 significant digits, by which
// its text is searched, so that it is found nowhere by chance.
func Marks(values ...float64) (all []Mark) {
	for _, v := range values {
		if v < 0 {
			v = -v // the sign is written in other places
		}
		add := func(what string, b []byte) { all = append(all, Mark{fmt.Sprintf("%v as %s", v, what), b}) }
		add("text", []byte(significant(strconv.FormatFloat(v, 'f', -1, 64), 9)))
		mantissa, _, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
		add("scientific text", []byte(significant(mantissa, 9)))
		var le, be [8]byte
		binary.LittleEndian.PutUint64(le[:], math.Float64bits(v))
		binary.BigEndian.PutUint64(be[:], math.Float64bits(v))
		// The last byte holds the sign: left out.
		add("float64, little endian", le[:7])
		add("float64, big endian", be[1:])
		add("float64 in hex", []byte(hex.EncodeToString(be[1:])))
		add("float64 in hex, little endian", []byte(hex.EncodeToString(le[:7])))
		add("integer", []byte(strconv.FormatUint(math.Float64bits(v), 10)))
		add("base64", []byte(base64.StdEncoding.EncodeToString(le[:])[:8]))
	}
	return all
}

// significant cuts a decimal after the given number of significant digits, without rounding.
func significant(s string, digits int) string {
	n, begun := 0, false
	for i, c := range s {
		if c >= '1' && c <= '9' || c == '0' && begun {
			begun = true
			if n++; n == digits {
				return s[:i+1]
			}
		}
	}
	return s
}

// Find names the marks in b.
func Find(b []byte, marks []Mark) (found []string) {
	for _, m := range marks {
		if bytes.Contains(b, m.Bytes) {
			found = append(found, m.What)
		}
	}
	return found
}

// FindInFolder calls Find on every file of a folder, also by name, and returns what was found with the files' names.
func FindInFolder(tb testing.TB, root string, marks []Mark) (found []string, files int) {
	tb.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for _, f := range Find(append(b, filepath.Base(path)...), marks) {
			found = append(found, path+": "+f)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return found, files
}
