package hostile_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/hostile"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

var update = flag.Bool("update", false, "write the files of docs/attacks")

func TestMain(m *testing.M) { os.Exit(testbed.RoleTests(m)) }

const folder = "../../../docs/attacks/"

// written compares a file of docs/attacks with what was found, or writes it. What is not whole must be in the file line
// by line.
func written(t *testing.T, name string, rows hostile.Table, whole bool) {
	t.Helper()
	if whole {
		same(t, name, rows.CSV())
		return
	}
	file, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if !hostile.Lists(string(file), r) {
			t.Errorf("docs/attacks/%s does not say %+v: %s", name, r, again)
		}
	}
}

const again = "if the difference is meant, run RIFFLE_LONG=1 go test ./internal/testing/hostile -update"

// same holds that a file of docs/attacks has this content, or writes it.
func same(t *testing.T, name, now string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(folder+name, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.ReadFile(folder + name)
	if err != nil {
		t.Fatal(err)
	}
	if string(file) == now {
		return
	}
	for _, line := range differ(string(file), now) {
		t.Error(line)
	}
	t.Errorf("docs/attacks/%s is not what this test finds: %s", name, again)
}

// differ lists the lines that only one of two texts has.
func differ(file, found string) (lines []string) {
	has := func(text, line string) bool { return strings.Contains("\n"+text, "\n"+line+"\n") }
	for line := range strings.Lines(file) {
		if line = strings.TrimSuffix(line, "\n"); !has(found, line) {
			lines = append(lines, "in the file only: "+line)
		}
	}
	for line := range strings.Lines(found) {
		if line = strings.TrimSuffix(line, "\n"); !has(file, line) {
			lines = append(lines, "found only: "+line)
		}
	}
	return lines
}

// Channels with one outcome share a line, and an attack's lines are next to each other.
func TestFilesListEveryRow(t *testing.T) {
	rows := hostile.Table{
		{Attack: "a", Channel: "x", Outcome: "one, or two", Test: "T"},
		{Attack: "b", Channel: "x", Outcome: "two", Test: "T"},
		{Attack: "a", Channel: "y", Outcome: "one, or two", Test: "T"},
		{Attack: "a", Channel: "z", Outcome: "two", Left: "l", Test: "T"},
	}
	const want = "attack,channels,what came of it,what protects a person then,test\n" +
		"a,x y,\"one, or two\",what the channel assumes,T\na,z,two,l,T\nb,x,two,what the channel assumes,T\n"
	text := rows.CSV()
	if text != want {
		t.Errorf("%s", text)
	}
	for _, r := range rows {
		if !hostile.Lists(text, r) {
			t.Errorf("%+v is not in\n%s", r, text)
		}
		other := r
		other.Outcome = "three"
		if hostile.Lists(text, other) {
			t.Errorf("%+v is in\n%s", other, text)
		}
		other = r
		other.Channel = "w"
		if hostile.Lists(text, other) {
			t.Errorf("%+v is in\n%s", other, text)
		}
	}
	if d := differ("a\nb\n", "a\nc\n"); len(d) != 2 {
		t.Errorf("%q", d)
	}
}
