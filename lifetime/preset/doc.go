// Package preset has the rules of gpumemprof (gpu-memory-profiler 0.2.3.post1) and of its successor stormlog 0.4.3.
//
// Its place in the pipeline: beside package finding, which has memlane's own rules. Nothing but the flag --rules needs it. A [Preset] turns the calls and
// samples of a capture into the [Optimization] that generate_optimization_report of the original returns, with the same keys,
// texts, order and figures, down to the rounding of sums, so that it can replace the original report.
//
// Differences from the original:
//
//   - collective_attribution, cross_rank_analysis and analysis_availability are missing, and the phase of a finding of
//     stormlog is null.
//   - Lists that the original makes from a set, in arbitrary order, are sorted; the first five are those of the sorted list.
//   - There is no finding where the original fails (a mean time of 0, all samples at one instant).
//   - Sums of bytes saturate, and a number that is not finite is null in JSON.
package preset
