//go:build !race

package seal_test

const raceDetector = false
