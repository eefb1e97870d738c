# XProf's Memory Viewer of the one program in a capture, in a separate session.
import glob
import os
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
from xprof.convert import raw_to_tool_data

with tempfile.TemporaryDirectory() as session:
    link = os.path.join(session, "host.xplane.pb")
    os.symlink(os.path.abspath(sys.argv[1]), link)
    raw_to_tool_data.xspace_to_tool_names([link])  # writes the programs out
    (program,) = glob.glob(os.path.join(session, "*.hlo_proto.pb"))
    name = os.path.basename(program).removesuffix(".hlo_proto.pb")
    data, _ = raw_to_tool_data.xspace_to_tool_data([link], "memory_viewer", {"module_name": name, "memory_space": "0"})
    if not data:
        sys.exit("no data")
