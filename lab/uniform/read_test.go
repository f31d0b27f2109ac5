package uniform_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/lab/uniform"
)

func read(text string) (all []*uniform.Release, shapes []uniform.Shape, err error) {
	err = uniform.Read(strings.NewReader(text), func(r *uniform.Release, s uniform.Shape) error {
		all, shapes = append(all, r), append(shapes, s)
		return nil
	})
	return all, shapes, err
}

func TestFilesAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want [][]int
	}{
		"from 0":              {"[2,0,1]\n[0,1,2]\n", [][]int{{2, 0, 1}, {0, 1, 2}}},
		"from 1, no last end": {"[2,3,1]", [][]int{{1, 2, 0}}},
		"by value":            {"[-5, 1000, 7]", [][]int{{0, 2, 1}}},
		"several sizes":       {"[1,0]\n\n [0] \n[]\n", [][]int{{1, 0}, {0}, {}}},
		"strings":             {`["item10","item9","item1"]`, [][]int{{2, 1, 0}}},
		"equal but for zeros": {`["a01","a1"]`, [][]int{{0, 1}}},
		"by their input":      {"{\"input\":[\"x\",\"b\",\"a\"]}\n[\"a\",\"b\",\"x\"]", [][]int{{2, 1, 0}}},
		"integers by input":   {"{\"input\":[9,8,7]}\n[9,7,8]\n{}\n[9,7,8]", [][]int{{0, 2, 1}, {2, 0, 1}}},
	} {
		all, _, err := read(c.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got [][]int
		for _, r := range all {
			got = append(got, r.Order)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	all, shapes, err := read("{\"report_size\":2,\"chunk_size\":3}\n[3,2,1,0]\n" +
		"{\"reports\":[\"p\",\"q\",\"p\"]}\n[0,1,2]")
	if err != nil || len(all) != 2 || !slices.Equal(all[0].Reports, []int{0, 0, 1, 1}) ||
		!slices.Equal(all[0].Chunks, []int{3, 1}) || !slices.Equal(all[1].Reports, []int{0, 1, 0}) ||
		all[1].Chunks != nil ||
		shapes[0] != (uniform.Shape{Items: 4, Report: 2, Chunk: 3}) {
		t.Errorf("%v %v %v", all, shapes, err)
	}
}

func TestBadFilesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[0,1]\n[0,0]\n":                    "line 2: not a file of releases: the item at place 1 is there twice",
		"[0,1":                              "line 1: not a file of releases: must be a JSON array",
		"null":                              "must be a JSON array",
		"null x":                            "line 1",
		"[0,1]]":                            "line 1",
		"[0.5,1]":                           "an item must be an integer of 64 bits or a string, at place 0",
		"[0,\"a\"]":                         "all integers or all strings, place 1",
		"[[0],[1]]":                         "an item must be",
		"[null]":                            "an item must be",
		"[99999999999999999999]":            "an item must be",
		"hello":                             "line 1",
		"{\"inputs\":[1]}":                  "an object may have",
		"{} {}":                             "something follows",
		"{\"input\":[1,1]}":                 "twice",
		"{\"input\":[1,2]}\n[1,2,3]":        "3 items leave",
		"{\"input\":[1,2]}\n[1,3]":          "place 1 is not in",
		"{\"input\":[1,2]}\n[2,2]":          "twice",
		"{\"input\":[1,2]}\n[1,\"2\"]":      "place 1 is not in",
		"{\"reports\":[1]}\n[1,2]":          "the reports of 1 items",
		"{\"reports\":[{}]}":                "an item must be",
		"{\"chunk_size\":-1}":               "must be from 0",
		"{\"input\":[1],\"reports\":[1,2]}": "in 2 reports",
	} {
		if _, _, err := read(text); !errors.Is(err, uniform.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Whatever is read is a release that can be judged, or an error.
func FuzzLines(f *testing.F) {
	for _, text := range []string{
		"[2,0,1]\n", "[\"b\",\"a\"]", "{\"input\":[3,1],\"reports\":[1,1],\"chunk_size\":1}\n[1,3]\n",
		"{\"report_size\":2}\n[0,1,2]",
		"[0,0]", "[1e3]", "{", "[\"a01\",\"a1\",\"A1\"]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		j := uniform.New(0)
		err := uniform.Read(strings.NewReader(text), func(r *uniform.Release, _ uniform.Shape) error {
			if err := j.Add(r); err != nil {
				t.Errorf("%q: what was read cannot be judged: %v", text, err)
			}
			return nil
		})
		if err != nil && !errors.Is(err, uniform.ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
		for _, finding := range j.Findings() {
			if !(finding.P >= 0 && finding.P <= 1) {
				t.Errorf("%q: p of %s is %v", text, finding.Test, finding.P)
			}
		}
	})
}
