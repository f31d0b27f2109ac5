//go:build cgo

package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// number is one that nobody sends by chance.
var number = regexp.MustCompile(`[0-9]{9,}`)

// FuzzInputs reads any text as each of the texts that a C program passes. What is read is one JSON value; what is not
// gives nothing, and no error about arms, features or a choice quotes a number of them.
func FuzzInputs(f *testing.F) {
	f.Add(`{"deployment":"d","number":3,"limits":{"Epsilon":1}}`, `{}`)
	f.Add(`[[0.5,123456789],[1]]`, `{"default":1,"exclude":[0]}`)
	f.Add(`{"arms":[[1]],"default":0} 1`, `{"exclude":[0]}}`)
	f.Add(`{"context":{"x":1},"arms":[{"id":"a","y":null}]}`, ``)
	f.Add(`{"arms":[{"id":123456789}]}`, `{"default":1234567890123456789012}`)
	f.Fuzz(func(t *testing.T, text, choice string) {
		read := func(what string, none bool, err error, of ...string) {
			switch {
			case err == nil:
				for _, s := range of {
					if !json.Valid([]byte(s)) {
						t.Fatalf("%s: %q is read", what, s)
					}
				}
			case !none:
				t.Fatalf("%s: something with %v", what, err)
			case what != "config":
				for _, n := range number.FindAllString(text+" "+choice, -1) {
					if strings.Contains(err.Error(), n) {
						t.Fatalf("%s: the error shows what was sent: %v", what, err)
					}
				}
			}
		}
		c, err := readConfig(text)
		read("config", c.Deployment == "" && c.Identity == nil, err, text)
		arms, _, err := readArms(text)
		read("arms", arms == nil, err, text)
		arms, of, err := readArmsAndChoice(text, choice)
		read("arms and choice", arms == nil && of.Excluded == nil, err, text, choice)
		about, err := readAsked(text)
		read("features", about.Arms == nil && about.Context == nil, err, text)
	})
}
