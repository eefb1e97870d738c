package fleet

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Roles tell what ranks do in a job: their pipeline stage, their host. The zero value knows none.
type Roles struct {
	axes   []string            // as people call them: "pipeline stage"
	values map[string][]string // of a rank, by axis
}

// axisNames are the names of usual axes of parallel programs, by the heads of columns.
var axisNames = map[string]string{
	"pp": "pipeline stage", "pipeline": "pipeline stage", "tp": "tensor rank", "tensor": "tensor rank",
	"dp": "data rank", "data": "data rank", "ep": "expert rank", "expert": "expert rank",
	"cp": "context rank", "context": "context rank",
}

// ReadRoles reads a table with a head line and a line for each rank. Commas or tabs separate its columns. Column
// "rank" has the number; each other column is an axis.
func ReadRoles(in io.Reader) (*Roles, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	table := csv.NewReader(strings.NewReader(string(text)))
	table.TrimLeadingSpace = true
	if head, _, _ := strings.Cut(string(text), "\n"); strings.Contains(head, "\t") {
		table.Comma = '\t'
	}
	lines, err := table.ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 {
		return nil, errors.New("it is empty")
	}
	column := slices.IndexFunc(lines[0], func(name string) bool { return strings.EqualFold(strings.TrimSpace(name), "rank") })
	if column < 0 || len(lines[0]) < 2 {
		return nil, errors.New("its first line needs a column rank and another, for example rank,pipeline,tensor")
	}
	r := &Roles{values: map[string][]string{}}
	for _, name := range slices.Delete(slices.Clone(lines[0]), column, column+1) {
		name = strings.TrimSpace(name)
		if usual, ok := axisNames[strings.ToLower(name)]; ok {
			name = usual
		}
		r.axes = append(r.axes, name)
	}
	for i, line := range lines[1:] {
		n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(line[column]), "rank "))
		if err != nil {
			return nil, fmt.Errorf("line %d: %q is not the number of a rank", i+2, line[column])
		}
		r.values[fmt.Sprintf("rank %d", n)] = slices.Delete(line, column, column+1)
	}
	return r, nil
}

// value returns the value of an axis for a rank, "" if it is unknown.
func (r *Roles) value(rank string, axis int) string {
	if values := r.values[rank]; values != nil {
		return strings.TrimSpace(values[axis])
	}
	return ""
}

// name returns what ranks with some values of an axis are called: "pipeline stages 3 and 5".
func (r *Roles) name(axis int, values []string) string {
	name := r.axes[axis]
	if name == sameSize {
		return strings.Join(values, " and ") + " of parameters"
	}
	if len(values) > 1 {
		name += "s"
	}
	return name + " " + strings.Join(values, " and ")
}

// common returns what the ranks of some memories have in common: at most three values of an axis, such that nine
// tenths of them have these values, and most memories with these values are among them: nine tenths of those that are
// free, without a cause of their own. n is how many have them.
func (r *Roles) common(ranks, free, all []string) (name string, n int) {
	if len(ranks) < 2 {
		return "", 0
	}
	for axis := range r.axes {
		counts, frees, in := map[string]int{}, map[string]int{}, map[string]int{}
		for _, rank := range all {
			counts[r.value(rank, axis)]++
		}
		for _, rank := range free {
			frees[r.value(rank, axis)]++
		}
		for _, rank := range ranks {
			in[r.value(rank, axis)]++
		}
		var values []string
		covered, have := 0, 0
		for _, value := range slices.Sorted(maps.Keys(in)) {
			if value != "" && counts[value] > 1 && 10*in[value] >= 9*frees[value] && 2*in[value] > counts[value] {
				values, covered, have = append(values, value), covered+in[value], have+counts[value]
			}
		}
		if n := len(values); n > 0 && n <= 3 && 2*n <= len(counts) && 10*covered >= 9*len(ranks) {
			return r.name(axis, values), have
		}
	}
	return "", 0
}

// sameSize is the axis of ranks whose parameters have one size.
const sameSize = "parameters"

// peers is the axis whose values have memory of their own: ranks are also compared with those of the same value. It
// is -1 if there is none.
func (r *Roles) peers() int {
	return slices.IndexFunc(r.axes, func(name string) bool { return name == "pipeline stage" || name == sameSize })
}

// axesOfGroups are the axes that names of process groups tell, in the order in which they name groups of ranks.
var axesOfGroups = []string{"pipeline stage", "expert rank", "tensor rank", "context rank", "data rank"}

// recordedRoles returns the roles that the names of process groups tell: "mesh_pp", as PyTorch's DeviceMesh names
// them, "PIPELINE_MODEL_PARALLEL_GROUP", as Megatron does, and "pp" or "pipeline". A group of one process divides
// nothing. If two groups tell different numbers of an axis, it is unknown.
func recordedRoles(groups []lifetime.Group) (roles []Role) {
	for _, axis := range axesOfGroups {
		numbers := map[int]bool{}
		for _, g := range groups {
			name := strings.ToLower(g.Name)
			name = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(name, "_parallel_group"), "_model"), "mesh_")
			if axisNames[name] == axis && g.Of > 1 {
				numbers[g.Number] = true
			}
		}
		if len(numbers) == 1 {
			for number := range numbers {
				roles = append(roles, Role{axis, int64(number)})
			}
		}
	}
	return roles
}

// groupRoles returns the values of ranks on an axis by the names of their process groups. A rank whose captures
// differ has none.
func (f *Fleet) groupRoles(axis string) map[string]string {
	values := map[string]string{}
	for m := range f.members() {
		for _, role := range m.Roles {
			if role.Axis != axis {
				continue
			}
			value := strconv.FormatInt(role.Number, 10)
			if was, ok := values[m.who]; ok && was != value {
				value = ""
			}
			values[m.who] = value
		}
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	return values
}

// rolesOf returns the roles that captures tell: the host of each rank, and, without a table, those of its process
// groups and the size of its parameters. Ranks of a pipeline stage have parameters of equal size.
func (f *Fleet) rolesOf(given *Roles) *Roles {
	r := &Roles{values: map[string][]string{}}
	if given != nil {
		r.axes = slices.Clone(given.axes)
		for rank, values := range given.values {
			r.values[rank] = slices.Clone(values)
		}
	} else {
		for _, axis := range axesOfGroups {
			r.add(axis, f.groupRoles(axis), 2)
		}
	}
	hosts, sizes := map[string]string{}, map[string]string{}
	for m := range f.members() {
		hosts[m.who] = m.Host
		for _, c := range m.Categories {
			if c.Name == purpose.ModelParameter.String() && given == nil && !m.k.Damaged() {
				sizes[m.who] = units.Bytes(c.Bytes)
			}
		}
	}
	r.add("host", hosts, 4)
	r.add(sameSize, sizes, 4)
	return r
}

// add adds an axis if it divides the ranks: several values, each of least ranks or more.
func (r *Roles) add(axis string, found map[string]string, least int) {
	counts := map[string]int{}
	for _, value := range found {
		counts[value]++
	}
	delete(counts, "")
	several := 0 // ranks whose value others have too
	for _, n := range counts {
		if n >= least {
			several += n
		}
	}
	if len(counts) < 2 || 10*several < 9*len(found) {
		return
	}
	for rank := range r.values {
		if _, ok := found[rank]; !ok {
			r.values[rank] = append(r.values[rank], "")
		}
	}
	for rank, value := range found {
		values := r.values[rank]
		for len(values) < len(r.axes) {
			values = append(values, "")
		}
		r.values[rank] = append(values, value)
	}
	r.axes = append(r.axes, axis)
}
