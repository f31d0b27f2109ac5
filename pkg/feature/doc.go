// Package feature is the schema of features that a deployment announces: it says how the numbers, categories and texts of
// a context and of arms become vectors of norm at most 1, so that all clients encode alike.
package feature
