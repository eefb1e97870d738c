# What Python takes to load XProf.
from xprof.convert import raw_to_tool_data
