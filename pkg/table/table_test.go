package table_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/riffle-dp/riffle/pkg/table"
)

// One table as programs write it: separators, decimal marks, line ends, marks at the start, quotes, spaces.
func TestTablesAsProgramsWriteThem(t *testing.T) {
	json := "\n{\"age\": 44.5, \"dose\": \"1.25\", \"site\": \"a,b\"}\n\n{\"site\": \"c\", \"dose\": 2, \"age\": 1e1}"
	for name, text := range map[string]string{
		"commas":             "age,dose,site\n44.5,1.25,\"a,b\"\n10,2,c\n",
		"CRLF":               "age,dose,site\r\n44.5,1.25,\"a,b\"\r\n10,2,c\r\n",
		"CR":                 "age,dose,site\r44.5,1.25,\"a,b\"\r10,2,c\r",
		"no end":             "age,dose,site\n44.5,1.25,\"a,b\"\n10,2,c",
		"blank lines":        "\n\nage,dose,site\n\n44.5,1.25,\"a,b\"\n\n10,2,c\n\n",
		"mark":               "\xef\xbb\xbfage,dose,site\n44.5,1.25,\"a,b\"\n10,2,c\n",
		"quotes":             "\"age\",\"dose\",\"site\"\n\"44.5\",\"1.25\",\"a,b\"\n\"10\",\"2\",\"c\"\n",
		"spaces":             " age , dose , site\n 44.5 , 1.25 , \"a,b\"\n10 , 2 , c\n",
		"semicolons":         "age;dose;site\r\n44,5;1,25;a,b\r\n10;2,0;c\r\n",
		"semicolons, points": "age;dose;site\n44.5;1.25;a,b\n10;2;c\n",
		"tabs":               "age\tdose\tsite\n44.5\t1.25\ta,b\n10\t2\tc\n",
		"a separator, said":  "sep=;\r\nage;dose;site\r\n44,5;1,25;a,b\r\n10;2;c\r\n",
		"a name with a line": "age;dose;site;\"a\nb,c,d,e\"\n44.5;1.25;a,b;\n10;2;c;\n",
		"JSON lines":         json,
		"JSON lines, CR":     "\xef\xbb\xbf" + strings.ReplaceAll(json, "\n", "\r"),
	} {
		got, err := table.Read(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		age, err1 := got.Numbers("age", false)
		dose, err2 := got.Numbers("dose", false)
		site, err3 := got.Categories("site", []string{"c", "a,b"}, false)
		if err := errors.Join(err1, err2, err3); err != nil || !slices.Equal(age, []float64{44.5, 10}) ||
			!slices.Equal(dose, []float64{1.25, 2}) || !slices.Equal(site, []int{1, 0}) || got.Rows() != 2 {
			t.Errorf("%s: %v %v %v %v", name, age, dose, site, err)
		}
	}
}

// packed is a text, compressed with gzip.
func packed(text string) string {
	out := new(bytes.Buffer)
	w := gzip.NewWriter(out)
	_, err := w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return out.String()
}

// secret stands for people's data: no error may have it.
const secret = "4711,08"

// What cannot be read is refused with a line or a column's name, and without any of the data.
func TestRefusalsQuoteNoData(t *testing.T) {
	wide := new(bytes.Buffer)
	for _, u := range utf16.Encode([]rune("\ufeffage\n1\n")) {
		wide.Write([]byte{byte(u), byte(u >> 8)})
	}
	many := strings.Repeat(secret+"\r", 1000)
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {" \r\n\t", "empty"},
		"header only":       {"age,dose\n", "no row"},
		"UTF-16":            {wide.String(), "UTF-16"},
		"UTF-16, no mark":   {"a\x00g\x00e\x00", "UTF-16"},
		"gzip":              {"\x1f\x8b\x08", "cut off"},
		"spreadsheet":       {"PK\x03\x04" + secret, "spreadsheet"},
		"Latin-1":           {"\xe4ge,dose\n1,2\n", "UTF-8"},
		"JSON array":        {`[{"age": "` + secret + `"}]`, "JSON lines"},
		"same name":         {"age,age\n1,2\n", "columns 1 and 2"},
		"no name":           {"age,\n1,2\n", "column 2 has no name"},
		"no header":         {many, "header"},
		"long header":       {strings.Repeat(secret[:4]+" ", 50) + "\n1\n", "column 1"},
		"more cells":        {"age,dose\n1,2\n1," + secret + "\n", "line 3 has another number of columns"},
		"fewer cells":       {"age,dose\n1,2\n\n4711\n", "line 4 has another number of columns"},
		"stray quote":       {"age,dose\n1,2\n1,47\"11\n", "line 3"},
		"files joined":      {"age,dose\n1,2\n\ufeff4711,2\n", "line 3 begins with a byte order mark"},
		"zero byte":         {"age,dose\n1,2\n1,47\x0011\n", "line 3: the file has a zero byte"},
		"Latin-1, line 3":   {"age,site\r\n1,a\r\n4711,\xe4\r\n", "line 3: the file is not UTF-8"},
		"gap in a column":   {"age\n1\n\n4711\n", "line 3 is blank"},
		"gzip, twice":       {packed(packed("age\n1\n")), "twice"},
		"a web page":        {"<table><tr><td>4711", "HTML"},
		"open quote":        {"age,dose\n1,\"" + strings.Repeat(secret+"\n", 100), "line 2"},
		"other JSON column": {`{"age": 1}` + "\n" + `{"` + secret + `": 1}`, `line 2 has no column "age"`},
		"more JSON columns": {`{"age": 1}` + "\n" + `{"age": 1, "` + secret + `": 1}`, "line 2"},
		"JSON twice":        {`{"age": 1, "age": 4711}`, "line 1 names a column twice"},
		"two on a line":     {`{"age": 1}{"age": 4711}`, "line 1"},
		"JSON cut off":      {`{"age": 1}` + "\n" + `{"age": 4711`, "line 2"},
		"JSON number":       {`{"age": 1}` + "\n4711", "line 2"},
		"empty object":      {"{}", "line 1"},
	} {
		got, err := table.Read(strings.NewReader(c.text))
		if !errors.Is(err, table.ErrTable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", name, got, err, c.want)
		} else if strings.Contains(err.Error(), "4711") || len(err.Error()) > 250 {
			t.Errorf("%s: the error quotes data: %v", name, err)
		}
	}
}

// Values that are no numbers, none or not declared are refused with line and column.
func TestValuesAreRefusedByLine(t *testing.T) {
	read := func(values ...string) *table.Table {
		got, err := table.Read(strings.NewReader("n;v\n0;a\n" + "\n1;" + strings.Join(values, "\n2;") + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for _, missing := range []string{"", " ", "NA", "n/a", "NaN", "null", "None", "?", ".", "-"} {
		numbers, err := table.Read(strings.NewReader("n;v\n0;1\n1;" + missing + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := numbers.Numbers("v", false); err == nil || !strings.Contains(err.Error(),
			`"v" has no value in line 3`) {
			t.Errorf("%q: %v", missing, err)
		}
		if v, err := numbers.Numbers("v", true); err != nil || v[0] != 1 || !math.IsNaN(v[1]) {
			t.Errorf("%q: %v, %v", missing, v, err)
		}
		if v, err := read(missing).Categories("v", []string{"a"}, true); err != nil || v[1] != -1 {
			t.Errorf("%q: %v, %v", missing, v, err)
		}
		if _, err := read(missing).Categories("v", []string{"a"}, false); err == nil {
			t.Errorf("%q is a category", missing)
		}
	}
	for _, bad := range []string{"4711 kg", "1.234,5", "0x10", "1_000", "Inf", "1e999", "1,2,3"} {
		numbers, err := table.Read(strings.NewReader("n;v\n0;1\n1;" + bad + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := numbers.Numbers("v", true); err == nil || !strings.Contains(err.Error(), `"v"`) ||
			!strings.Contains(err.Error(), "line 3") || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v, %v", bad, v, err)
		}
	}
	if _, err := read("4711").Categories("v", []string{"a", "b"}, true); err == nil ||
		!strings.Contains(err.Error(), "line 4 that is not declared") || strings.Contains(err.Error(), "4711") {
		t.Errorf("a value that is not declared: %v", err)
	}
	for near, want := range map[string]string{"V": `nearest name is "v"`, "weight": "names 2 columns"} {
		if err := read("a").Has(near); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", near, err, want)
		}
	}
}

// A number whose marks could mean two things is refused: 1.234 is a thousand times more where commas are decimal marks.
func TestMarksOfThousandsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"n;v\n1,5;1\n2;1.234\n":      "decimal commas",
		"n;v\n1;1,5\n2;1.234,5\n":    "decimal commas",
		"n,v\n1,1\n2,\"1,234\"\n":    "decimal point",
		"n,v\n1,1\n2,\"1,234.5\"\n":  "decimal point",
		"n\tv\n1\t1\n2\t44,5\n":      "decimal point",
		"n\tv\n1\t1\n2\t1,234,567\n": "decimal point",
	} {
		got, err := table.Read(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := got.Numbers("v", false); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "line 3") {
			t.Errorf("%q: %v, %v; want %q", text, v, err, want)
		}
	}
	got, err := table.Read(strings.NewReader("a|b\n1|2\n"))
	if err != nil || !strings.Contains(fmt.Sprint(got.Has("pressure")), "commas, semicolons or tabs") {
		t.Errorf("one column: %v, %v", err, got.Has("pressure"))
	}
}

// FuzzPeoplesTables reads any bytes. What is read has different names, and a finite number or none in each row of a
// column.
func FuzzPeoplesTables(f *testing.F) {
	f.Add([]byte("a, y\n1,2\n3,4\n"))
	f.Add([]byte("\xef\xbb\xbf\n" + `{"a":1,"y":2}` + "\r" + `{"y":4,"a":null}`))
	f.Add([]byte("a;b\n1,5;\"2\n\""))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := table.Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, column := range got.Columns {
			if names[column] || column == "" {
				t.Fatalf("a column is called %q, again or for nothing", column)
			}
			names[column] = true
			values, err := got.Numbers(column, true)
			if err == nil && len(values) != got.Rows() {
				t.Fatal(fmt.Sprint(len(values), " values of ", got.Rows(), " rows"))
			}
			for _, v := range values {
				if math.IsInf(v, 0) {
					t.Fatalf("column %q has %v", column, v)
				}
			}
		}
	})
}
