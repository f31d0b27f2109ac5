// Package parallel says how many tests of a package run at the same time, for packages whose tests wait more than they
// work.
package parallel

import "flag"

// Tests lets n tests of a package run at the same time unless -parallel says otherwise. A package's TestMain
// calls it first; the flags are parsed then.
func Tests(n string) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", n); err != nil {
		panic(err)
	}
}
