package privacy_test

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// 2000 devices send six noise bits each on every of 15 coordinates, at a scale such that one record moves the vector by
// at most 12.9 levels.
func ExampleCertify() {
	g, err := privacy.Certify(privacy.Release{
		Blocks: []privacy.Block{{Count: 15, Levels: 13}}, Shift: 12.9, Noise: 2000 * 6, Bias: 0.5, TailDelta: 1e-9,
	})
	fmt.Printf("mu %.4f, epsilon %.3f at delta 1e-6, %v\n", g.Mu, g.Epsilon(1e-6), err)
	// Output: mu 0.2362, epsilon 0.999 at delta 1e-6, <nil>
}

// A person's device asks before it takes part, and spends before its report leaves.
func ExampleLedger() {
	mu, err := privacy.MuFor(0.8, 0.98e-6)
	if err != nil {
		panic(err)
	}
	g := privacy.Guarantee{Mu: mu, TailDelta: 0.02e-6}
	ledger := privacy.Ledger{Epsilon: 1, Delta: 1e-6, Records: 2}
	for _, step := range []func(privacy.Ledger) (privacy.Ledger, error){
		func(l privacy.Ledger) (privacy.Ledger, error) {
			return l.Ask(7, time.Time{}, 5, g, privacy.NoGuarantee())
		},
		func(l privacy.Ledger) (privacy.Ledger, error) { return l.Promise(7, time.Time{}) },
		func(l privacy.Ledger) (privacy.Ledger, error) { return l.Spend(7) },
	} {
		if ledger, err = step(ledger); err != nil { // a real device stores the ledger after every step
			panic(err)
		}
	}
	fmt.Print(ledger.Explain())
	_, err = ledger.Ask(8, time.Time{}, 5, g, privacy.NoGuarantee())
	fmt.Println(err)
	// Output:
	// Limit: epsilon 1 at delta 1e-06, 2 records.
	// Epoch 7: epsilon 0.8000 over 5 releases; a report has left the device.
	// Together: epsilon 0.8000 of 1. 1 record may still be used; the next one at epsilon 0.559 at most.
	// If no other device is honest, nothing bounds what is revealed.
	// privacy: past the budget: epoch 8 would bring epsilon to 1.1633 at delta 1e-06, the limit is 1; so far 0.8000
}
