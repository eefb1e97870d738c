package oomtext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Keys of a log whose lines are JSON: of the text, in the order in which they are asked, of what only a log has, and of the rank.
var (
	keysOfText = []string{"msg", "message", "log", "text", "event", "error", "err", "exception", "exc_info", "stack", "traceback"}
	keysOfLogs = []string{"level", "levelname", "severity", "ts", "time", "timestamp", "@timestamp", "asctime", "stream"}
	keysOfRank = []string{"rank", "local_rank", "global_rank"}
)

// record returns the text of a line that is a record of a log in JSON, and the rank that it names, "" if none; nil if the line is something
// else.
func record(line []byte) (text []byte, rank string) {
	if len(line) == 0 || line[0] != '{' || line[len(line)-1] != '}' {
		return nil, ""
	}
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		return nil, ""
	}
	has := func(keys []string) (value any) {
		for _, key := range keys {
			if value = fields[key]; value != nil {
				return value
			}
		}
		return nil
	}
	if has(keysOfLogs) == nil {
		return nil, ""
	}
	for _, key := range keysOfText {
		if value, ok := fields[key].(string); ok {
			text = append(append(text, strings.TrimRight(value, "\r\n")...), '\n')
		}
	}
	if n, ok := has(keysOfRank).(float64); ok && n >= 0 {
		rank = fmt.Sprint(int64(n))
	}
	return bytes.TrimSuffix(text, []byte("\n")), rank
}
