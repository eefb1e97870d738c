package jaxprof

import "github.com/memlane/memlane/formats/internal/wire"

// Tags of the fields of profile.proto that are read.
const (
	profileSampleType = 1<<3 | wire.Bytes
	profileSample     = 2<<3 | wire.Bytes
	profileLocation   = 4<<3 | wire.Bytes
	profileFunction   = 5<<3 | wire.Bytes
	profileString     = 6<<3 | wire.Bytes
	profileNames      = 1000<<3 | wire.Bytes // of memlane's recorder

	valueType = 1<<3 | wire.Number
	valueUnit = 2<<3 | wire.Number

	sampleLocations = 1<<3 | wire.Bytes
	sampleLocation  = 1<<3 | wire.Number
	sampleValues    = 2<<3 | wire.Bytes
	sampleValue     = 2<<3 | wire.Number
	sampleLabel     = 3<<3 | wire.Bytes

	labelKey    = 1<<3 | wire.Number
	labelString = 2<<3 | wire.Number
	labelNumber = 3<<3 | wire.Number

	locationID   = 1<<3 | wire.Number
	locationLine = 4<<3 | wire.Bytes

	lineFunction = 1<<3 | wire.Number
	lineNumber   = 2<<3 | wire.Number

	functionID   = 1<<3 | wire.Number
	functionName = 2<<3 | wire.Number
	functionFile = 4<<3 | wire.Number
)
