// Package regression is the arena of private regressions: where people come from and what is true of them ([Spec],
// [Data]), how good a model is ([Data.Score]), the estimators by name ([Estimators]), and one run of one of them
// ([Run]).
//
// A truth of finitely many kinds of people costs little however many people there are: how many of each kind come is
// drawn, and all of one kind are one record with a count. Nothing here protects anyone.
package regression
