# XProf's Memory Profile of a capture. XProf writes caches next to its input, so the input is in a separate session.
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
from xprof.convert import raw_to_tool_data

with tempfile.TemporaryDirectory() as session:
    link = os.path.join(session, "host.xplane.pb")
    os.symlink(os.path.abspath(sys.argv[1]), link)
    data, _ = raw_to_tool_data.xspace_to_tool_data([link], "memory_profile", {})
    if not data:
        sys.exit("no data")
