package bench

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var update = flag.Bool("update", false, "write lab/docs/benchmarks.md anew from lab/docs/figures/bench.json")

// The page of results says what its data and this code say: nobody wrote into it by hand, and no wording is of an
// earlier version. With -update it is written anew from the same measurements.
func TestThePageIsOfItsData(t *testing.T) {
	docs := filepath.Join("..", "docs")
	data, err := os.ReadFile(filepath.Join(docs, figures, dataName))
	if err != nil {
		t.Fatal(err)
	}
	var r Result
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	r.Published = publishedFigures()
	page, err := os.ReadFile(filepath.Join(docs, pageName))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("Written by `([^`]+)`").FindSubmatch(page)
	if command == nil {
		t.Fatal("the page does not say what wrote it")
	}
	if *update {
		if err := r.WritePage(docs, string(command[1])); err != nil {
			t.Fatal(err)
		}
		return
	}
	tables, err := r.tables(string(command[1]))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(docs, tableName)); err != nil || string(got) != string(tables) {
		t.Errorf("lab/docs/%s is not what the data give: run go test ./lab/bench -run Page -update", tableName)
	}
	names, _ := r.charts()
	if r.page(string(command[1]), names) != string(page) {
		t.Error("lab/docs/benchmarks.md is not what its data give: run go test ./lab/bench -run Page -update")
	}
}
