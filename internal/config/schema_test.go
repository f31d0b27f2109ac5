package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/role"
)

// A struct that is no schema is a mistake in the program, and the first test that makes the command finds it.
func TestSchemaMistakesPanic(t *testing.T) {
	for want, command := range map[string]func(){
		"has no doc tag": func() {
			refuse[struct {
				A int `key:"a"`
			}]()
		},
		"needs to be exported": func() {
			refuse[struct {
				A int `doc:"x"`
			}]()
		},
		"lower_case": func() {
			refuse[struct {
				A int `key:"A" doc:"x"`
			}]()
		},
		"no file or flag": func() {
			refuse[struct {
				A []int `key:"a" doc:"x"`
			}]()
		},
		"two fields have": func() {
			refuse[struct {
				A, B int `key:"a" doc:"x"`
			}]()
		},
		"have the key log": func() {
			refuse[struct {
				L struct{} `key:"log"`
			}]()
		},
		"same flag as --config": func() {
			refuse[struct {
				A int `key:"config" doc:"x"`
			}]()
		},
		"Docker or Kubernetes": func() {
			refuse[struct {
				A int `key:"port" doc:"x"`
			}]()
		},
		"Config needs to be": func() { refuse[int]() },
		"same flag as a_b": func() {
			refuse[struct {
				A int `key:"a_b" doc:"x"`
				S struct {
					B int `key:"b" doc:"x"`
				} `key:"a"`
			}]()
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}()
			command()
		}()
	}
}

func refuse[C any]() {
	role.Command(role.Role[C]{Name: "broken", Prepare: func(*role.Env, C) (role.Serve, error) { return nil, nil }})
}
