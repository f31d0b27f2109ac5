package glm

// The layout of reported matrices, for the tests outside the package.
var (
	AppendOuter  = appendOuter
	FromTriangle = fromTriangle
)
