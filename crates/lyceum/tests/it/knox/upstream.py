"""A small MCP server of 2024-11-05 in every form Knox knows: stdio, plain, sse, custom.

Over HTTP it prints the port it listens on. It keeps no state but what `who` tells.
"""

import json
import os
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SEEN = {"client": None, "methods": [], "headers": {}, "pid": os.getpid()}
STREAMS = []
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
STREAMING = sys.argv[1] in ("sse", "custom")
PAGES = [["echo", "add@numbers"], ["who", "fail", "die"] + ["drop"] * STREAMING]


def tool(name):
    return {"name": name, "description": "the tool " + name, "inputSchema": SCHEMA}


def text(value):
    return {"content": [{"type": "text", "text": json.dumps(value)}]}


def call(params):
    name, arguments = params["name"], params.get("arguments", "none")
    if name == "who":
        return text(SEEN)
    if name == "die":
        os._exit(1)
    if name == "drop":
        # Ends every stream there is, this caller's included; the process goes on.
        while STREAMS:
            STREAMS.pop().put(None)
        return None
    if name == "fail":
        raise ValueError("it failed")
    return text({"tool": name, "arguments": arguments})


def answer(method, params):
    if method == "initialize":
        SEEN["client"] = params.get("clientInfo")
        return {
            "protocolVersion": "2024-11-05",
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "small", "version": "1"},
        }
    if method == "tools/list":
        page = int(params.get("cursor", "0"))
        result = {"tools": [tool(name) for name in PAGES[page]]}
        if page + 1 < len(PAGES):
            result["nextCursor"] = str(page + 1)
        return result
    if method == "tools/call":
        return call(params)
    if method == "resources/list":
        if "--no-resources" in sys.argv:
            raise ValueError("no resources today")
        return {"resources": [
            {"uri": "file:///srv/a.md", "name": "a", "description": "notes", "mimeType": "text/markdown"},
        ]}
    if method == "resources/read":
        if "missing" in params["uri"]:
            raise ValueError("no such file")
        return {"contents": [{"uri": params["uri"], "text": "hello", "mimeType": "text/markdown"}]}
    if method == "ping":
        return {}
    raise KeyError(method)


def respond(message):
    """The answer to a message, or None."""
    if "method" not in message:
        return None
    SEEN["methods"].append(message["method"])
    if "id" not in message:
        return None
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answer(message["method"], message.get("params") or {})
    except KeyError:
        reply["error"] = {"code": -32601, "message": "no such method"}
    except ValueError as error:
        reply["error"] = {"code": -32000, "message": str(error)}
    return reply


def stdio():
    print("starting up, please wait", flush=True)
    print("noise on stderr\n" * 20000, file=sys.stderr, flush=True)
    for line in sys.stdin:
        reply = respond(json.loads(line))
        if reply:
            print(json.dumps(reply), flush=True)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        mode = sys.argv[1]
        if mode == "plain" or self.path != "/base/sse":
            return self.send_error(404)
        # Before the client hears of it: it may send at once.
        mine = queue.Queue()
        STREAMS.append(mine)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.event("hello", "an event nobody knows")
        if mode == "sse":
            self.event("endpoint", "/inbox")
        while message := mine.get():
            self.event("message", json.dumps(message))

    def event(self, name, data):
        self.wfile.write(f"event: {name}\ndata: {data}\n\n".encode())
        self.wfile.flush()

    def do_POST(self):
        places = {"plain": "/rpc", "sse": "/inbox", "custom": "/base/message"}
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        if self.path != places[sys.argv[1]]:
            return self.send_error(404)
        SEEN["headers"] = {name.lower(): value for name, value in self.headers.items()}
        reply = respond(json.loads(body))
        if sys.argv[1] == "plain":
            data = json.dumps(reply).encode() if reply else b""
            self.send_response(200 if reply else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if reply and STREAMS:
            STREAMS[-1].put(reply)


if sys.argv[1] == "stdio":
    stdio()
else:
    # One that comes back is where it was.
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
