package hlo

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/formats/internal/wire"
	"github.com/memlane/memlane/lifetime/compiled"
)

// origin names a value by the instruction that defines it and the path of the value in its result, in XLA's notation.
type origin struct {
	instruction int64
	path        string
}

// shardings are the OpShardings of a program for several devices, and the names of its arguments and results. The
// compiler drops those of other instructions when it divides the program.
type shardings struct {
	devices    int64
	parameters []wire.Span // by number
	results    wire.Span
	of         map[origin]compiled.Sharding
}

// Types of an OpSharding that say where an array is. Others (maximal, manual) do not.
const (
	replicatedSharding = 0
	tupleSharding      = 2
	tiledSharding      = 3
)

// maxRank and maxParts bound a sharding.
const (
	maxRank  = 64
	maxParts = 1 << 40
)

// readShardings finds the shardings of the arguments and results.
func (p *program) readShardings() error {
	x := &p.shardings
	main := p.graph.main
	if x.devices < 2 || main == nil {
		return nil
	}
	x.of = map[origin]compiled.Sharding{}
	m := wire.Scanner{}
	for i := range main.ops {
		op := &main.ops[i]
		if op.opcode != "parameter" || op.number < 0 || op.number >= int64(len(x.parameters)) {
			continue
		}
		leaves, err := p.leaves(x.parameters[op.number])
		m.Inside("sharding", -1, err)
		for i, s := range leaves {
			path := ""
			if len(leaves) > 1 {
				path = braced([]int64{int64(i)})
			}
			x.of[origin{op.id, path}] = s
		}
	}
	leaves, err := p.leaves(x.results)
	m.Inside("sharding", -1, err)
	if main.root < 0 {
		return m.Err
	}
	results := p.graph.results()
	if len(results) != len(leaves) || slices.Contains(results, -1) {
		return m.Err
	}
	for i, o := range results {
		op, path := &main.ops[o], ""
		if op.opcode == "get-tuple-element" && len(op.operands) == 1 && op.operands[0] >= 0 {
			op, path = &main.ops[op.operands[0]], braced([]int64{op.number})
		}
		if at := (origin{op.id, path}); x.of[at] == (compiled.Sharding{}) {
			x.of[at] = leaves[i]
		}
	}
	return m.Err
}

// leaves returns the shardings of a value, or of the parts of a tuple.
func (p *program) leaves(at wire.Span) (all []compiled.Sharding, err error) {
	whole, parts, err := p.sharding(at)
	if err != nil || parts == nil {
		return []compiled.Sharding{whole}, err
	}
	for _, part := range parts {
		s, _, failed := p.sharding(part)
		all, err = append(all, s), cmp.Or(err, failed)
	}
	return all, err
}

// sharding reads an OpSharding: that of an array, or the places of those of a tuple's parts.
func (p *program) sharding(at wire.Span) (s compiled.Sharding, parts []wire.Span, err error) {
	var dimensions, last []int64
	kind, copiesLast := int64(replicatedSharding), int64(0)
	err = wire.Read(p.proto, at, wire.Into{{shardingType, &kind}, {shardingDimensions, &dimensions}, {shardingTuple, &parts},
		{shardingCopiesLast, &copiesLast}, {shardingLastKinds, &last}})
	switch {
	case err != nil || kind == tupleSharding:
		return s, parts, err
	case kind == replicatedSharding:
		return compiled.Sharding{Copies: p.shardings.devices}, nil, nil
	case kind == tiledSharding && len(dimensions) <= maxRank:
		if copiesLast != 0 {
			last = []int64{replicatedSharding}
		}
		return tiled(dimensions, last, p.shardings.devices), nil, nil
	}
	return s, nil, nil
}

// tiled returns the sharding of an array. The last dimensions number devices with the same part, if their kinds say so;
// of other kinds nothing is known.
func tiled(dimensions, last []int64, devices int64) compiled.Sharding {
	own := len(dimensions) - len(last)
	if own < 0 {
		return compiled.Sharding{}
	}
	var text []string
	parts, copies := int64(1), int64(1)
	for i, n := range dimensions {
		if n < 1 || n > maxParts/(parts*copies) || i >= own && last[i-own] != replicatedSharding {
			return compiled.Sharding{}
		}
		if i < own {
			parts *= n
			text = append(text, strconv.FormatInt(n, 10))
		} else {
			copies *= n
		}
	}
	s := compiled.Sharding{Split: strings.Join(text, "x"), Copies: copies}
	if parts == 1 {
		s.Split = ""
	}
	if parts*copies != devices {
		return compiled.Sharding{}
	}
	return s
}
