"""FastMCP's proxy in front of one server, answering JSON without sessions: the cheapest way it has.

uvicorn uses uvloop and httptools by itself where they are installed, and here they are.
"""

import argparse

import uvicorn
from fastmcp.server import create_proxy

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--upstream", required=True)
arguments = parser.parse_args()

proxy = create_proxy(arguments.upstream, name="bench")
app = proxy.http_app(path="/mcp", json_response=True, stateless_http=True)
uvicorn.run(app, host="127.0.0.1", port=arguments.port, log_level="error", access_log=False)
