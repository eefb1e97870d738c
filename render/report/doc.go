// Package report writes reports and comparisons as Markdown for a pull request, and
// findings as SARIF and as annotations of GitHub Actions.
//
// Its place in the pipeline: after lifetime/answer, like package text.
package report
