package shuffle

import (
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

// The ones among the messages that several processes make of one round's noise are the announced binomial too, wherever
// the round is cut: its mean and its variance in each coordinate, and coordinates that differ. Parts with the right
// number of messages of which a fixed half are ones would pass every other check of a round.
//
// There are 3 times 200 numbers of variance 4. Their mean is off by more than 0.45, or their mean square by more than
// 1.3, with probability below 1e-7 each (five and a half standard errors; seeds are fixed); half of the variance is 2.
func TestPartsOfTheNoiseAreTheWholeBinomial(t *testing.T) {
	t.Parallel()
	const coordinates, bits = 200, 16
	a, opener, digest := noisy(t, coordinates, bits)
	var sum, squares, draws float64
	for _, most := range []uint64{5, 16, 1000} { // cut within coordinates, between them, and hardly at all
		src, ones := rand.NewChaCha8([32]byte{byte(most), 25}), make([]float64, coordinates)
		for _, p := range NoiseParts(a, digest, most) {
			messages, err := p.Append(t.Context(), nil, src)
			if err != nil {
				t.Fatal(err)
			}
			for ; len(messages) > 0; messages = messages[seal.BitSize:] {
				_, coordinate, one, err := opener.Open(messages[:seal.BitSize])
				if err != nil {
					t.Fatal(err)
				}
				if one {
					ones[coordinate]++
				}
			}
		}
		for _, n := range ones {
			sum, squares, draws = sum+n, squares+(n-bits/2)*(n-bits/2), draws+1
		}
	}
	if mean, square := sum/draws, squares/draws; mean < 7.55 || mean > 8.45 || square < 2.7 || square > 5.3 {
		t.Errorf("mean %v and mean square %v about 8, want 8 and 4", mean, square)
	}
}
