// Package report sums up captures for people who decide what to do next, and for
// pipelines: findings as the report that gpumemprof made popular, and that as
// Markdown for a pull request.
//
// Its place in the pipeline: after the rules (lifetime/leak), beside the other
// renderers. It adds no opinion of its own but the order: what to do first.
package report
