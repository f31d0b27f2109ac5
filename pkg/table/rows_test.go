package table_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/riffle-dp/riffle/pkg/table"
)

// cells reads a table row by row: its text, and the numbers of column "v" where there is one.
func cells(in io.Reader) (string, error) {
	text, err := table.Plain(in)
	if err != nil {
		return "", err
	}
	if _, err := table.First(text); err != nil {
		return "", err
	}
	c, err := table.NewCells(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		row, err := c.Next()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			return out.String(), err
		}
		fmt.Fprint(&out, row.Line)
		for i, name := range c.Columns {
			if name != "v" {
				out.WriteString(" " + row.Text(i))
				continue
			}
			v, err := row.Number(i)
			if err != nil {
				return out.String(), err
			}
			fmt.Fprint(&out, " ", v)
		}
		out.WriteByte('\n')
	}
}

// A table is the same however its bytes arrive, packed or not, with any ends of lines; characters are not cut.
func TestRowsAreReadOneByOne(t *testing.T) {
	body := strings.Repeat("\"é, ü\n€\",1.5\n", 10_000) // characters of two and three bytes at the edges of chunks
	want, err := cells(strings.NewReader("n,v\n" + body))
	if err != nil || strings.Count(want, " 1.5\n") != 10_000 || !strings.HasPrefix(want, "2 é, ü\n€ 1.5\n4 ") {
		t.Fatalf("%.40s, %v", want, err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("\xef\xbb\xbfn,v\r\n" + strings.ReplaceAll(body, "\n", "\r\n"))); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]io.Reader{
		"CR":            strings.NewReader(strings.ReplaceAll("n,v\n"+body, "\n", "\r")),
		"one by one":    iotest.OneByteReader(strings.NewReader("n,v\r\n" + strings.ReplaceAll(body, "\n", "\r\n"))),
		"half by half":  iotest.HalfReader(strings.NewReader("n,v\n" + body)),
		"data with end": iotest.DataErrReader(strings.NewReader("n,v\n" + body)),
		"gzip":          &packed,
	} {
		if got, err := cells(in); err != nil || got != want {
			t.Errorf("%s: %d bytes, want %d: %v", name, len(got), len(want), err)
		}
	}
}

// Between semicolons the first mark that is seen is that of the table: one of the other is refused wherever it comes.
// An index without a name is a column; a second column of a name is none.
func TestRowsHaveOneDecimalMark(t *testing.T) {
	for text, want := range map[string]string{
		"n;v\na;1,5\nb;2\n":                "2 a 1.5\n3 b 2\n",
		"n;v\na;1.5\nb;2\n":                "2 a 1.5\n3 b 2\n",
		"n;v\na;1\n2,5;2\n":                "2 a 1\n3 2,5 2\n",
		"sep=;\nn;v\na;1,5\n":              "3 a 1.5\n",
		",v\n0,1.5\n":                      "2 0 1.5\n",
		"n;v\na;1.234\nb;1,5\n":            "line 3 has a number with a comma, and line 2 has one with a point",
		"n;v\na;1,5\nb;1.234\n":            `"v" has a number with a point in line 3`,
		"n;v\n1,5;2\nb;1.234\n":            `"v" has a number with a point in line 3`,
		"n,v\na,\"1,5\"\n":                 `"v" has a number with a comma in line 2`,
		"n,v\na,4711kg\n":                  "line 2",
		"v,v\n1,2\n":                       "columns 1 and 2 have the same name",
		"n,v\na,1\n\xff,2\n":               "not UTF-8",
		"n,v\na,1\nb\n":                    "line 3 has another number of columns",
		"1,2\n3,4\n":                       "names of columns belong",
		"\x1f\x8b\x08\x00 cut off":         "cut off",
		"PAR1\x00\x00":                     "read_parquet",
		"\n \n":                            "empty",
		"n,v\na," + strings.Repeat("9", 5): "2 a 99999\n",
	} {
		got, err := cells(strings.NewReader(text))
		if strings.HasSuffix(want, "\n") && (err != nil || got != want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
		if !strings.HasSuffix(want, "\n") && (!errors.Is(err, table.ErrTable) || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "4711")) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// FuzzRows reads any bytes row by row, in any pieces: what is read does not depend on them.
func FuzzRows(f *testing.F) {
	f.Add([]byte("n;v\na;1,5\n"))
	f.Add([]byte("\xef\xbb\xbf,v\r\n0,1\r\r\n\"a\nb\",2"))
	f.Add([]byte("sep=\t\nn\tv\n1\t2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, err := cells(bytes.NewReader(text))
		if err != nil && !errors.Is(err, table.ErrTable) {
			t.Fatal(err)
		}
		one, errOne := cells(iotest.OneByteReader(bytes.NewReader(text)))
		whole, errWhole := cells(bytes.NewReader(text))
		if one != whole || (errOne == nil) != (errWhole == nil) {
			t.Fatalf("one by one %q, %v; at once %q, %v", one, errOne, whole, errWhole)
		}
	})
}
