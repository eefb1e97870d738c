package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// billOf lists what the program is made of, in the JSON of CycloneDX 1.6. A
// module's hash is that of go.sum: SHA-256 of the list of its files' hashes.
func billOf(version string, at time.Time, modules []module) ([]byte, error) {
	bill := cyclonedx.NewBOM()
	bill.SpecVersion = cyclonedx.SpecVersion1_6
	bill.JSONSchema = "http://cyclonedx.org/schema/bom-1.6.schema.json"
	main := component("github.com/memlane/memlane", version, []string{"Apache-2.0"})
	main.Type = cyclonedx.ComponentTypeApplication
	bill.Metadata = &cyclonedx.Metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: &main}
	components := []cyclonedx.Component{}
	for _, m := range modules {
		c := component(m.Path, m.Version, m.licence.ids)
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil {
			return nil, err
		}
		c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		components = append(components, c)
	}
	bill.Components = &components
	var b bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bill)
	return b.Bytes(), err
}

func component(path, version string, licences []string) cyclonedx.Component {
	named := cyclonedx.Licenses{}
	for _, id := range licences {
		named = append(named, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{
		BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url,
		Licenses: &named,
	}
}
