// Package statistic holds what a device reports of its record: public functions from records to vectors, and the
// sensitivity of a sum of such vectors.
//
//	record.go                  a record
//	statistic.go               the kinds, and what each needs
//	outer.go                   outer products as vectors and back: only what a structure allows is in them
//	vector.go                  the vector of a record, clipped, or of all that a person did; Statistic.Bounds
//	bounds.go                  ranges of coordinates and diameters; their proofs are in gradient.go, hessian.go,
//	                           rewards.go and angles.go
//	runs.go                    tighter ranges and diameters where arms lie in disjoint runs of coordinates
//	enclosing_ball.go          the smallest ball that holds every gradient
//	joint_spread.go            the sensitivity of a gradient and an outer product together
//	bins.go                    the statistics of layered regression; their bounds
//	question.go                the answers to a question; their bounds
//	reweighted.go, clipped.go  the statistics of reweighted and of improper regressions; their bounds
//
// For every record, clipped as Statistic.Vector clips it, the vector lies in Statistic.Bounds; every bound is proved in
// the comment of its function, error margins included. The package adds no noise and certifies no privacy: packages
// protocol and privacy do.
package statistic

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/layered"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
)

// Kind names a statistic: which vector a device computes of its record.
type Kind string

// The statistics. d is the dimension of arms and parameter.
const (
	// Hessian is family.Curvature(<x,theta>) xx', as the upper triangle in row-major order, (0,0) (0,1) .. (0,d-1)
	// (1,1) .., with the off-diagonals multiplied by sqrt 2 so that the Euclidean norm of the vector is the Frobenius
	// norm of the matrix. Of a structure only the pairs that can be other than 0, in the same order: Structure.Pairs(d)
	// numbers, which is d(d+1)/2 for any arm.
	Hessian Kind = "hessian"
	// Gradient is (mu(<x,theta>) - r) x. d numbers.
	Gradient Kind = "gradient"
	// Covariance is Weight xx', in the layout of Hessian, with 0 <= Weight <= WeightBound: the matrices V (weight 1)
	// and H_k (weight s(x)^2) of Riffle's seed paper, Algorithm 1.
	Covariance Kind = "covariance"
	// Row is the record itself: the arm, the reward, and 1 if the person explored, 0 if not. d+2 numbers. It is for a
	// trusted curator alone, who opens every person's row, and adds noise to all that leaves it (Algorithm 2 of the
	// seed paper). No sum of rows is ever released.
	Row Kind = "record"
	// Rewards is what says whether the policy helps: the reward less the middle of its range for a decision of the
	// policy, the same for one of the control group, and sqrt 3 times half the range if a reward came. 3 numbers; the
	// other two are 0. See rewardsBounds.
	Rewards Kind = "rewards"
	// Pair is the arm and the reward. d+1 numbers. Sums of pairs are of no use: it is for the channel local, where each
	// report is protected by its own noise and counts hold every one (plan.Plan.Pairs). See pairBounds.
	Pair Kind = "pair"
	// Normalization is yy'/|Ux| with y = U^(1/2) x, in the layout of Hessian, of which a structure leaves out nothing.
	// U is the public matrix of Statistic.Normalization, here and in the next two.
	Normalization Kind = "normalization"
	// ReweightedGradient is (mu(<x,theta>) - r) u with u = Ux/|Ux|. d numbers.
	ReweightedGradient Kind = "reweighted-gradient"
	// ReweightedLinear is u r, then u x' row by row, then u u' in the layout of Hessian, of which a structure leaves
	// out nothing. d + d^2 + d(d+1)/2 numbers.
	ReweightedLinear Kind = "reweighted-linear"
	// ClippedGradient is Gradient with the prediction mu(<x,theta>) clipped to the range of rewards and half its length
	// more on either side, which bounds it however long theta is. d numbers.
	ClippedGradient Kind = "clipped-gradient"
	// BinCount is 1 for the bin of the record, among those of the layer below the last of a public tree, Tree; so are
	// the next two. One number for each bin.
	BinCount Kind = "bin-count"
	// BinFirst is y v for the bin of the record: its reward less what the tree predicts, clipped, and the scaled rest
	// of its features. d numbers for each bin.
	BinFirst Kind = "bin-first"
	// BinSecond is v v' for the bin of the record, as its upper triangle in row-major order. d(d+1)/2 numbers for each
	// bin.
	BinSecond Kind = "bin-second"
	// BinErrors is eta |<u,v>| for the bin of the record in the last layer of Tree, with the bin's direction u and the
	// width eta of the bin above it. One number for each bin.
	BinErrors Kind = "bin-errors"
	// Mean answers Statistic.Question, and so do the next two: each quantity and its square, and the number of records
	// (MeanCount). 2m+1 numbers for m quantities. See answerBounds.
	Mean Kind = "mean"
	// Histogram is 1 for the cell of the record, and 1 for the record. One number more than cells.
	Histogram Kind = "histogram"
	// Fit is uu'/(m+2) for u of 1, m features and the outcome, in the layout of Hessian: (m+2)(m+3)/2 numbers.
	Fit Kind = "fit"
)

// kinds are all of them.
func kinds() []Kind {
	return []Kind{Hessian, Gradient, Covariance, Row, Rewards, Pair, Normalization, ReweightedGradient,
		ReweightedLinear, ClippedGradient, BinCount, BinFirst, BinSecond, BinErrors, Mean, Histogram, Fit}
}

// Summed reports whether this is a kind of which sums are released: any that is known but Row.
func (k Kind) Summed() bool { return k != Row && slices.Contains(kinds(), k) }

// Normalized reports whether a statistic of this kind needs a normalization.
func (k Kind) Normalized() bool {
	return k == Normalization || k == ReweightedGradient || k == ReweightedLinear
}

// Pointed reports whether a statistic of this kind is evaluated at a point, Statistic.Theta.
func (k Kind) Pointed() bool {
	return k == Hessian || k == Gradient || k == ReweightedGradient || k == ClippedGradient
}

// MaxParameterNorm is the largest norm of an evaluation point that a Statistic accepts, but ClippedGradient. Beyond it
// the families' means are 0 or R to machine precision, and no model needs it.
const MaxParameterNorm = 50

// boundsSlack is the relative amount by which every bound is widened: far more than rounding adds on the way from a
// record to its vector (about 1e-15 per operation), and far less than the noise.
const boundsSlack = 1e-9

// ErrInvalid is returned for a statistic that is not well defined.
var ErrInvalid = errors.New("glm: invalid statistic")

// Statistic is a public function from records to vectors of a fixed length, with bounds that hold for every record.
// Build it with NewHessian, NewGradient, NewCovariance or NewRow, or fill the fields and call Validate.
type Statistic struct {
	Kind Kind
	// Family (or what Score makes of one) is the reward family; Covariance and Normalization ignore it.
	Family family.Response
	// Theta is the public evaluation point of the kinds that are Pointed; the others ignore it.
	Theta []float64
	// Normalization is the root U^(1/2) of a public matrix U, of the kinds that are Normalized; the others ignore it.
	Normalization symmetric.Packed
	// Tree is the public tree of the kinds that are Binned; the others ignore it.
	Tree *layered.Tree
	// Question is what the kinds that are Asked answer; the others ignore it.
	Question *Question
	// ArmDim is d. Where there is a Theta it must be len(Theta).
	ArmDim int
	// WeightBound is the largest weight of Covariance; the other kinds ignore it.
	WeightBound float64
	// Structure says which arms there are; nil: any. A record whose arm does not fit has no vector, of any kind.
	Structure structure.Structure
}

// NewHessian is the statistic family.Curvature(<x,theta>) xx'. It shares theta.
func NewHessian(f family.Response, theta []float64) (Statistic, error) {
	s := Statistic{Kind: Hessian, Family: f, Theta: theta, ArmDim: len(theta)}
	return s, s.Validate()
}

// NewGradient is the statistic (mu(<x,theta>) - r) x. It shares theta.
func NewGradient(f family.Response, theta []float64) (Statistic, error) {
	s := Statistic{Kind: Gradient, Family: f, Theta: theta, ArmDim: len(theta)}
	return s, s.Validate()
}

// NewCovariance is the statistic Weight xx' for weights in [0, weightBound] and arms of dimension armDim.
func NewCovariance(armDim int, weightBound float64) (Statistic, error) {
	s := Statistic{Kind: Covariance, ArmDim: armDim, WeightBound: weightBound}
	return s, s.Validate()
}

// NewRow is the record itself, for arms of dimension armDim.
func NewRow(f family.Family, armDim int) (Statistic, error) {
	s := Statistic{Kind: Row, Family: f, ArmDim: armDim}
	return s, s.Validate()
}

// NewPair is arm and reward, for arms of dimension armDim.
func NewPair(f family.Response, armDim int) (Statistic, error) {
	s := Statistic{Kind: Pair, Family: f, ArmDim: armDim}
	return s, s.Validate()
}

// NewRewards is the statistic Rewards, for arms of dimension armDim.
func NewRewards(f family.Family, armDim int) (Statistic, error) {
	s := Statistic{Kind: Rewards, Family: f, ArmDim: armDim}
	return s, s.Validate()
}

// Validate refuses a statistic that is not well defined; the error wraps ErrInvalid and says why.
func (s Statistic) Validate() error {
	if s.ArmDim < 1 {
		return fmt.Errorf("%w: %s: the arm dimension is %d, it must be at least 1", ErrInvalid, s.Kind, s.ArmDim)
	}
	if err := s.Structure.Validate(s.ArmDim); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalid, s.Kind, err)
	}
	if !slices.Contains(kinds(), s.Kind) {
		return fmt.Errorf("%w: unknown kind %q: known are %q", ErrInvalid, s.Kind, kinds())
	}
	if s.Kind == Covariance && (!(s.WeightBound > 0) || math.IsInf(s.WeightBound, 0)) {
		return fmt.Errorf("%w: covariance: the weight bound is %v, it must be positive and finite",
			ErrInvalid, s.WeightBound)
	}
	if s.Family == nil && s.Kind != Covariance && s.Kind != Normalization {
		return fmt.Errorf("%w: %s: no reward family", ErrInvalid, s.Kind)
	}
	if s.Kind.Pointed() {
		if len(s.Theta) != s.ArmDim {
			return fmt.Errorf("%w: %s: theta has %d coordinates, the arms %d",
				ErrInvalid, s.Kind, len(s.Theta), s.ArmDim)
		}
		most := float64(MaxParameterNorm)
		if s.Kind == ClippedGradient {
			most = symmetric.MaxEntry
		}
		if n := convex.Norm(s.Theta); !(n <= most) {
			return fmt.Errorf("%w: %s: the norm of theta is %v, it must be at most %v", ErrInvalid, s.Kind, n, most)
		}
	}
	if s.Kind.Normalized() {
		if err := s.Normalization.CheckSize(s.ArmDim); err != nil {
			return fmt.Errorf("%w: %s: normalization: %w", ErrInvalid, s.Kind, err)
		}
	}
	if s.Kind.Asked() {
		return s.Question.Validate(s.Kind, s.ArmDim)
	}
	if s.Kind.Binned() {
		return s.checkTree()
	}
	return nil
}

// Dim is the length of the statistic's vectors.
func (s Statistic) Dim() int {
	switch s.Kind {
	case Gradient, ReweightedGradient, ClippedGradient:
		return s.ArmDim
	case Normalization:
		return symmetric.Dim(s.ArmDim)
	case ReweightedLinear:
		return s.ArmDim + s.ArmDim*s.ArmDim + symmetric.Dim(s.ArmDim)
	case BinCount, BinFirst, BinSecond, BinErrors:
		return s.bins() * s.perBin()
	case Mean, Histogram, Fit:
		return s.Question.dim(s.Kind)
	case Row:
		return s.ArmDim + 2
	case Pair:
		return s.ArmDim + 1
	case Rewards:
		return 3
	}
	return s.Structure.Pairs(s.ArmDim)
}
