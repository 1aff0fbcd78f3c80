"""The command line that all client scripts share."""

import argparse


def parse(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", required=True, help="the MCP endpoint")
    parser.add_argument("--cut-url", required=True, help="the same through the cutting proxy")
    parser.add_argument("--stdio", help="the server program, to test over stdio and restarts too")
    return parser.parse_args()
