package testbed

import (
	"flag"
	"testing"
)

// Parallel lets so many tests of a package run at the same time unless -parallel says otherwise: tests of the roles wait more than
// they work. A package's TestMain calls it first; the flags are parsed then.
func Parallel(tests string) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", tests); err != nil {
		panic(err)
	}
}

// RoleTests is the TestMain of a role's package: twelve tests at a time. It returns the exit code.
func RoleTests(m *testing.M) int {
	Parallel("12")
	return m.Run()
}
