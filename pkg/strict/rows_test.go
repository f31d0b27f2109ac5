package strict_test

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/riffle-dp/riffle/pkg/strict"
)

// table reads what is there before the first error.
func table(in io.Reader, o strict.Options) (rows []strict.Row[inner], err error) {
	for row, err := range strict.Rows[inner](in, o) {
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func TestRowsHaveTheirLines(t *testing.T) {
	want := []strict.Row[inner]{{2, inner{Theta: []float64{1}}}, {4, inner{Theta: []float64{2}, Note: "x"}}}
	for name, end := range map[string]string{"LF": "\n", "CR LF": "\r\n", "CR": "\r"} {
		for _, start := range []string{"", "\xef\xbb\xbf"} {
			for _, last := range []string{"", end, end + end + " " + end} {
				text := start + end + `{"theta":[1]}` + end + end + `{"theta":[2],"note":"x"}` + last
				for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
					if rows, err := table(in, strict.Options{}); err != nil || !reflect.DeepEqual(rows, want) {
						t.Errorf("%s, %q: %+v, %v", name, text, rows, err)
					}
				}
			}
		}
	}
}

func TestRowsEndAtTheFirstError(t *testing.T) {
	good := `{"theta":[1]}` + "\n"
	for text, problem := range map[string]string{
		good + good + `{"theta":[null]}`: `line 3: "theta[0]" is null`, good +
			`{"theta":[1]} {"theta":[2]}`: "line 2: it has something behind it",
		good + "\n" + `{"theta":[1],"x":1}`: `line 3: "x" is not a field here`, good +
			`{}`: `line 2: "theta" is missing`,
		good + `{"theta":[1]`: "line 2: it is cut off", good + "\xff\xfe": "line 2: it is not UTF-8", good +
			"theta,note": "line 2: it is not JSON",
		"\xff\xfe{\x00": "line 1: it is UTF-16", "\xfe\xff\x00{": "line 1: it is UTF-16",
		"{\x00\"\x00":      "line 1: it is UTF-16",
		"\x1f\x8b\x08\x00": "line 1: it is compressed", "PK\x03\x04 ": "line 1: it is a spreadsheet", "[" +
			`{"theta":[1]}`: "line 1: it must be an object",
		good + "\xef\xbb\xbf" + good: "line 2: it is not JSON", good + `{"theta":[1]}` +
			"\x00": "line 2: it has something behind it",
	} {
		rows, err := table(strings.NewReader(text), strict.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), problem) || strings.HasPrefix(text, good) != (len(rows) > 0) {
			t.Errorf("%q: %d rows, %v; want %q", text, len(rows), err, problem)
		}
	}
	if rows, err := table(strings.NewReader(""), strict.Options{}); err != nil || len(rows) != 0 {
		t.Error(rows, err)
	}
	broken := errors.New("broken") // says so even where it breaks within a line, which is then not JSON
	for _, text := range []string{good, good + `{"theta":[1`} {
		in := io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))
		if rows, err := table(in, strict.Options{}); len(rows) != 1 || !errors.Is(err, broken) {
			t.Error(rows, err)
		}
	}
}

// endless is a line without an end.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read += len(b)
	return len(b), nil
}

// A line of any length is refused when it is longer than a row may be, and no more of it is read.
func TestLongLinesAreRefused(t *testing.T) {
	row := `{"theta":[1]}`
	for limit, ok := range map[int]bool{len(row): true, len(row) - 1: false} {
		rows, err := table(strings.NewReader(row+"\n"+row+"\r\n"+row), strict.Options{MaxLine: limit})
		if ok != (err == nil) || ok && len(rows) != 3 {
			t.Errorf("at most %d bytes: %d rows, %v", limit, len(rows), err)
		}
	}
	e := &endless{}
	_, err := table(io.MultiReader(strings.NewReader(row+"\n"), e), strict.Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "line 2: it has more than 1048576 bytes") ||
		e.read > 4*strict.DefaultMaxLine {
		t.Errorf("%d bytes were read: %v", e.read, err)
	}
}
