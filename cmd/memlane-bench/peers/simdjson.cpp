// Parses a file by the DOM of simdjson. Exits with 1 if it is not JSON. Without a file, prints the version.
#include <cstdio>
#include <simdjson.h>

int main(int, char **argv) {
  if (!argv[1]) {
    std::printf("simdjson %d.%d.%d\n", simdjson::SIMDJSON_VERSION_MAJOR, simdjson::SIMDJSON_VERSION_MINOR, simdjson::SIMDJSON_VERSION_REVISION);
    return 0;
  }
  simdjson::dom::parser parser(1ull << 40); // bytes, instead of 4 GiB
  simdjson::dom::element document;
  return parser.load(argv[1]).get(document) != simdjson::SUCCESS;
}
