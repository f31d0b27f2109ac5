package decisions_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/population/decisions"
	"github.com/riffle-dp/riffle/pkg/feature"
)

// named reads a text with columns that a command line names, and with the schema of the odd files.
func named(t *testing.T, text string, columns ...string) ([]decisions.Decision, error) {
	t.Helper()
	o := decisions.Options{Schema: schemaFor(t, "testdata/odd/x")}
	if columns != nil {
		var err error
		if o.Columns, err = decisions.ParseColumns(columns); err != nil {
			return nil, err
		}
	}
	log, err := decisions.Read(strings.NewReader(text), o)
	if err != nil {
		return nil, err
	}
	return log.Decisions, nil
}

// The same three decisions in every form give the same vectors, bit for bit: those of the schema.
func TestFormsAgree(t *testing.T) {
	forms := map[string]string{
		"CSV": "age,site,member,arm,reward,propensity,arms\n54,north,true,sms,1,0.5,none|sms\n" +
			"18,,no,call,0,0.25,none|sms|call\n,south,,none,1,1,none\n",
		"semicolons": "age;site;member;arm;reward;propensity;arms\n" +
			"54,0;north;True;sms;1;0,5;\"[\"\"none\"\",\"\"sms\"\"]\"\n" +
			"18;NA;0;call;0;0,25;none|sms|call\n;south;;none;1;1;none\n",
		"JSON Lines": `
{"age":54,"site":"north","member":true,"arm":"sms","reward":1,"propensity":0.5,"arms":["none","sms"]}
{"age":18,"member":0,"arm":"call","reward":false,"propensity":0.25,"arms":["none","sms","call"]}
{"site":"south","age":null,"arm":"none","reward":true,"propensity":1,"arms":[{"id":"none"}]}`,
		"an app": `
{"context":{"age":54,"site":"north","member":true},"arm":1,"reward":1,"propensity":0.5,` +
			`"arms":[{"id":"none"},{"id":"sms"}]}
{"context":{"age":18,"member":false},"arm":2,"reward":0,"propensity":0.25,` +
			`"arms":[{"id":"none"},{"id":"sms"},{"id":"call"}]}
{"context":{"site":"south"},"arm":0,"reward":1,"propensity":1,"arms":[{"id":"none"}]}`,
		"adf": `shared |a age:54 site=north member
| id=none
0:-1:0.5 | id=sms

shared | age:18 member:0
| id=none
| id=sms
2:0:0.25 | id=call

shared | site=south
0:-1:1 | id=none
`,
		"dsjson": `{"_label_cost":-1,"_label_probability":0.5,"_labelIndex":1,` +
			`"c":{"U":{"age":54,"site":"north","member":true},"_multi":[{"id":"none"},{"id":"sms"}]}}
{"_label_cost":0,"_label_probability":0.25,"_labelIndex":2,` +
			`"c":{"age":18,"U":{"member":false},"_multi":[{"id":"none"},{"id":"sms"},{"id":"call"}]}}
{"_label_cost":-1,"_label_probability":1,"_labelIndex":0,"c":{"U":{"site":"south"},"_multi":[{"T":{"id":"none"}}]}}`,
	}
	want, err := named(t, forms["CSV"])
	if err != nil || len(want) != 3 {
		t.Fatal(want, err)
	}
	if v := want[1].Arms[2]; v[0] < 0.4 || v[2] != v[0] || v[4] != -v[0] || v[6] != 0 || v[8] != -v[0] {
		t.Errorf("call at 18, nowhere, no member: %v", v)
	}
	for name, text := range forms {
		got, err := named(t, text)
		for i := range got {
			if i < len(want) {
				got[i].Line = want[i].Line
			}
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
}

// A column has the role that it is given, a value is that of all rows, and a cost is minus a reward.
func TestColumnsHaveRoles(t *testing.T) {
	text := "who,Age (years),site,offer,loss\nx,54,north,sms,0.5\ny,18,south,none,0\n"
	columns := []string{"age=Age (years)", "arm=offer", "cost=loss", "propensity:=0.25", "member:=", "decision=who"}
	got, err := named(t, text, columns...)
	if err != nil || len(got) != 2 || got[0].Reward != -0.5 || got[1].Reward != 0 || got[1].Propensity != 0.25 ||
		got[0].ID != "x" || got[0].Arm != 1 || len(got[0].Arms) != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	for want, columns := range map[string][]string{
		`entry 1 is not ROLE=COLUMN`:          {"arm"},
		`"arm" is given twice`:                {"arm=a", "arm=b"},
		`"weight" is no role of a column`:     {"weight=a"},
		`both "reward" and "cost"`:            {"reward=a", "cost=b"},
		`--columns reward=COLUMN`:             {"arm=offer", "propensity:=1", "age:=", "member:=", "reward=Loss"},
		`(the nearest name is "loss")`:        {"arm=offer", "propensity:=1", "age:=", "member:=", "reward=Loss"},
		`"arm", "reward" and "propensity"`:    {"age:=", "member:="},
		`a file says all`:                     {"@file", "arm=offer"},
		`"propensity" must be above 0`:        {"arm=offer", "reward=loss", "propensity:=25", "age:=", "member:="},
		`--columns member:= for a field that`: {"arm=offer", "reward=loss", "propensity:=1", "age:="},
	} {
		if got, err := named(t, text, columns...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %v; want %q", columns, got, err, want)
		}
	}
	for column, text := range map[string]string{"cost=x": "1:0:0.5 | age:3\n", "reward:=1": "1:0:0.5 | age:3\n",
		"arms:=none|sms": "shared | age:3\n0:0:0.5 | id=sms\n"} {
		if _, err := named(t, text, column); err == nil || !strings.Contains(err.Error(), "Vowpal Wabbit") {
			t.Errorf("%s: %v", column, err)
		}
	}
}

// Columns without a role are refused if that is asked for, in every form; features in namespaces have their own names.
func TestStrictLogs(t *testing.T) {
	o := decisions.Options{Schema: schemaFor(t, "testdata/odd/x"), Strict: true}
	header, row := "age,site,member,arm,reward,propensity", "54,north,1,sms,1,1"
	app, rest := `{"context":{"age":54,"site":"north","member":true`, `},"arm":"sms","reward":1,"propensity":1}`
	for text, want := range map[string]string{
		"2:-1:0.5 |a age:54 |b site=north member\n":          "",
		"2:-1:0.5 |a age:54 |b site=north member who=4711\n": `line 1: "who" is not a field here`,
		header + "\n" + row + "\n":                           "",
		header + ",who\n" + row + ",4711\n":                  `"who" is not a field here`,
		app + rest:                                           "",
		app + `,"who":4711` + rest:                           `line 1: "who" is not a field here`,
	} {
		_, err := decisions.Read(strings.NewReader(text), o)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "4711")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A number is the index of an arm, but the name of one where arms have numbers for names. A text that stands for no
// value in a table is one in other forms.
func TestNumbersAndNames(t *testing.T) {
	schema, err := feature.Parse([]byte(`{"version": 1, "context": [{"name": "x", "kind": "hashed", "buckets": 3}],
		"arms": [{"name": "id", "kind": "hashed", "buckets": 9}], "terms": [["id"], ["id", "x"]]}`))
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) (d decisions.Decision, err error) {
		log, err := decisions.Read(strings.NewReader(text), decisions.Options{Schema: schema})
		if err != nil {
			return d, err
		}
		return log.Decisions[0], nil
	}
	for of, want := range map[string]int{
		`"arms":["a","b","c"],"arm":1`: 1, `"arms":["a","b","c"],"arm":"b"`: 1, `"arms":["a","b","c"],"arm":3`: -1,
		`"arms":["3","2","1"],"arm":1`: 2, `"arms":[3,2,1],"arm":"1"`: 2, `"arms":[1,2,3],"arm":0`: -1,
		`"arms":["a","b","c"],"arm":"1"`: -1, `"arms":["a","1"],"arm":0`: -1, `"arms":["a","b"],"arm":0.5`: -1,
		`"arms":["01","02"],"arm":1`: -1, `"arms":["1","01"],"arm":"01"`: 1, `"arms":["7"],"arm":"07"`: -1,
		`"arms":["10"],"arm":"1e1"`: -1, `"arms":["3"],"arm":"3.0"`: 0, `"arms":["3"],"arm":"3.00"`: -1,
		`"arms":["9007199254740993","9007199254740992"],"arm":9007199254740993`: 0,
	} {
		d, err := read(`{"x":"y",` + of + `,"reward":1,"propensity":1}`)
		if (err == nil) != (want >= 0) || err == nil && d.Arm != want {
			t.Errorf("%s: arm %d, %v; want %d", of, d.Arm, err, want)
		}
	}
	for names, want := range map[string]int{"a|b": 1, "1|2|3": 1, "0|1|2": -1, "3|2|1": 1, "5|6": -1} {
		columns, err := decisions.ParseColumns([]string{"arms:=" + names, "x:="})
		if err != nil {
			t.Fatal(err)
		}
		o := decisions.Options{Schema: schema, Columns: columns}
		log, err := decisions.Read(strings.NewReader("2:-1:0.5 | f\n"), o)
		if (err == nil) != (want >= 0) || err == nil && log.Decisions[0].Arm != want {
			t.Errorf("action 2 of %s: %v, %v; want %d", names, log, err, want)
		}
	}
	csv := "x,arm,reward,propensity,arms\n"
	// A long line of dsjson is one, and values of a column file are what is written there.
	long := `{"_label_cost":-1,"_label_probability":1,"_labelIndex":0,"c":{"y":"` + strings.Repeat("y", 1<<17) +
		`","x":"none","_multi":[{"id":"a"}]}}`
	if _, err := read(long); err != nil {
		t.Errorf("a long line: %v", err)
	}
	none, err1 := read("shared | x=none\n0:-1:1 | id=a\n")
	same, err2 := read(`{"x":"none","arms":["a"],"arm":0,"reward":1,"propensity":1}`)
	blank, err3 := read(csv + ",a,1,1,a\n")
	cell, err4 := read(csv + "none,a,1,1,a\n")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(none.Arms, same.Arms) || !reflect.DeepEqual(blank.Arms, cell.Arms) ||
		reflect.DeepEqual(none.Arms, blank.Arms) {
		t.Errorf("%v, %v, %v, %v", none.Arms, same.Arms, blank.Arms, cell.Arms)
	}
}

// The file beside a log says what its columns are, unless something else does. Arms in it may have features.
func TestColumnsBesideALog(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	log := write("log.csv", "age,site,member,offer,reward,propensity,p\n54,north,1,sms,1,0.5,0.25\n")
	write("log.csv.columns.yaml", "arm: offer\npropensity: p\narms: {value: [{id: sms}, {id: none}]}\n")
	o := decisions.Options{Schema: schemaFor(t, "testdata/odd/x")}
	got, err := decisions.Open(log, o)
	if err != nil || got.Decisions[0].Propensity != 0.25 || got.Decisions[0].Arm != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if o.Columns, err = decisions.ParseColumns([]string{"arm=offer"}); err != nil {
		t.Fatal(err)
	}
	if got, err := decisions.Open(log, o); err != nil || got.Decisions[0].Propensity != 0.5 {
		t.Errorf("%+v, %v", got, err)
	}
	hashed, err := feature.Parse([]byte(`{"version": 1, "context": [{"name": "x", "kind": "category",
		"values": ["8", "010", "2024-01-01", "no"]}], "arms": [{"name": "id", "kind": "category", "values": ["a"]}],
		"terms": [["x"], ["id"]]}`))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]int{"8": 0, "8.0": 0, "010": 1, "2024-01-01": 2, "no": 3, "\"no\"": 3,
		"&n no": 3} {
		var v []float64
		c, err := decisions.ParseColumns([]string{"@" + write("c.yaml", "x: {value: "+value+"}\n")})
		if err == nil {
			var log *decisions.Log
			o := decisions.Options{Schema: hashed, Columns: c}
			log, err = decisions.Read(strings.NewReader("arm,reward,propensity\na,1,1\n"), o)
			if err == nil {
				v = log.Decisions[0].Arms[0]
			}
		}
		if err != nil || v[want] < 0.7 {
			t.Errorf("%s: %v, %v; want %d", value, v, err, want)
		}
	}
	for want, text := range map[string]string{
		`line 2: "arm" is given twice`: "arm: a\narm: b\n", `line 1: "x" has a value`: "x: {value: {a: 1, a: 2}}\n",
		`line 2: "y" has a value`:      "x: {value: 1}\ny: {value: &a [*a]}\n",
		`line 1: it has no roles`:      "- arm\n",
		`"arm" is no name of a column`: "arm: [a]\n", "is not YAML": "arm: [\n", `"reward" is no name`: "reward: 1\n",
		`"arm" is no name of a col`: "arm: {value: 1, more: 2}\n",
	} {
		if _, err := decisions.ParseColumns([]string{"@" + write("c.yaml", text)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// What people are is in no error: values of odd files that are marked do not come back.
func TestErrorsQuoteNoValue(t *testing.T) {
	const secret = "qx4711"
	schema := schemaFor(t, "testdata/odd/x")
	paths, err := filepath.Glob("testdata/odd/*/*")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"54", "18", "north", "sms", "none", "0.25", "0.5", "true", "81ce", "-1"} {
			marked := strings.ReplaceAll(string(text), value, secret)
			for _, s := range []decisions.Options{{Schema: schema}, {}, {Every: true}, {Strict: true, Schema: schema}} {
				_, err := decisions.Read(strings.NewReader(marked), s)
				if err == nil {
					continue
				}
				refused++
				if !errors.Is(err, decisions.ErrLog) || strings.Contains(err.Error(), "4711") {
					t.Errorf("%s with %s marked: %v", path, value, err)
				}
			}
		}
	}
	if refused < 1000 {
		t.Errorf("%d refusals only", refused)
	}
}
