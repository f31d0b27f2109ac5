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

// FuzzInputs reads any text as each of the texts that a program passes. What is read is one JSON value; what is not
// gives nothing, and no error about arms or features quotes a number of them.
func FuzzInputs(f *testing.F) {
	f.Add(`{"deployment":"d","number":3,"limits":{"Epsilon":1}}`)
	f.Add(`[[0.5,123456789],[1]]`)
	f.Add(`{"arms":[[1]],"default":0} 1`)
	f.Add(`{"context":{"x":1},"arms":[{"id":"a","y":null}]}`)
	f.Add(`{"arms":[{"id":123456789}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		read := func(what string, none bool, err error) {
			switch {
			case err == nil:
				if !json.Valid([]byte(text)) {
					t.Fatalf("%s: %q is read", what, text)
				}
			case !none:
				t.Fatalf("%s: something with %v", what, err)
			case what != "config":
				for _, n := range number.FindAllString(text, -1) {
					if strings.Contains(err.Error(), n) {
						t.Fatalf("%s: the error shows what was sent: %v", what, err)
					}
				}
			}
		}
		c, err := readConfig(text)
		read("config", c.Deployment == "" && c.Identity == nil, err)
		arms, _, err := readArms(text)
		read("arms", arms == nil, err)
		about, err := readAsked(text)
		read("features", about.Arms == nil && about.Context == nil, err)
	})
}
