// Package preset is the rules of gpumemprof and stormlog, as they are:
// gpu-memory-profiler 0.2.3.post1 and its successor stormlog 0.4.3.
//
// Its place in the pipeline: it stands beside package leak, whose rules are
// memlane's own. A [Preset] turns the calls and samples of a capture into the
// [Report] that generate_optimization_report of the original makes of them, with
// the same keys, words, order and figures.
//
// The rules are mirrored where memlane's own would decide otherwise, down to how
// sums are rounded, so that a report can take the original's place. What is left
// out: collective_attribution, cross_rank_analysis and analysis_availability,
// and the phase that a finding of stormlog fell into, which is null. Lists that
// the original makes from a set, in any order, are sorted, and the first five of
// a set are the first five of the sorted one. Where the original fails (a mean
// time of 0, samples all at one instant) there is no finding. Sums of bytes
// saturate, and what is no finite number is null in JSON.
package preset
