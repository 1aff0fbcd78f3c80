// The official TypeScript SDK 1.x (2025-11-25 and older) against the fixture server.
//
// Run from a folder whose node_modules holds the SDK; modules are looked up beside this file.

import assert from 'node:assert/strict';
import { parseArgs } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const SIMPLE_TEXT = 'This is a simple text response for testing.';
const STATIC_TEXT = 'This is the content of the static text resource.';
const ANSWER = { username: 'ada', email: 'ada@example.org' };
// Far above what a check takes; a client that hangs must say so instead of stopping the run.
const LIMIT_MS = 20_000;

const { values: args } = parseArgs({
  options: { url: { type: 'string' }, 'cut-url': { type: 'string' }, stdio: { type: 'string' } }
});

let passed = 0;
let failed = 0;

/** Runs one check: it passes unless it throws or hangs. */
async function check(name, body) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${LIMIT_MS} ms`)), LIMIT_MS);
  });
  try {
    await Promise.race([body(), limit]);
    passed += 1;
    console.log(`ok   ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${String(error.message ?? error).replace(/\s+/g, ' ')}`);
    console.error(error);
  } finally {
    clearTimeout(timer);
  }
}

/** Connects, runs the body's checks, disconnects; connecting and parting are checks too. */
async function connection(where, transport, body) {
  const client = newClient();
  let connected = false;
  await check(`${where}: connect`, async () => {
    await client.connect(transport);
    connected = true;
  });
  if (!connected) return;
  await body(where, client);
  await check(`${where}: disconnect`, async () => {
    await transport.terminateSession?.();
    await client.close();
  });
}

function newClient() {
  const client = new Client(
    { name: 'client-check', version: '1.0.0' },
    { capabilities: { elicitation: {} } }
  );
  client.setRequestHandler(ElicitRequestSchema, async () => ({
    action: 'accept',
    content: ANSWER
  }));
  return client;
}

const textOf = (result) => result.content.map((item) => item.text ?? '').join('');

/** Calls the tool with progress; each report comes exactly once and in order. */
async function progress(client) {
  const seen = [];
  const onprogress = ({ progress, total }) => seen.push([progress, total]);
  const call = { name: 'test_tool_with_progress', arguments: {} };
  const result = await client.callTool(call, undefined, { onprogress });
  assert.deepEqual(seen, [[0, 100], [50, 100], [100, 100]]);
  assert.ok(textOf(result));
}

async function surface(where, client) {
  await check(`${where}: list tools`, async () => {
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    for (const name of ['test_simple_text', 'test_tool_with_progress', 'test_error_handling']) {
      assert.ok(names.includes(name), `${name} is not listed`);
    }
  });
  await check(`${where}: call a tool`, async () => {
    assert.equal(textOf(await client.callTool({ name: 'test_simple_text' })), SIMPLE_TEXT);
  });
  await check(`${where}: a tool's error is a result`, async () => {
    assert.equal((await client.callTool({ name: 'test_error_handling' })).isError, true);
  });
  await check(`${where}: progress arrives in order`, () => progress(client));
  await check(`${where}: elicitation is answered`, async () => {
    const call = { name: 'test_elicitation', arguments: { message: 'Who are you?' } };
    assert.match(textOf(await client.callTool(call)), /ada/);
  });
  await check(`${where}: read a resource`, async () => {
    const uris = (await client.listResources()).resources.map((resource) => resource.uri);
    assert.ok(uris.includes('test://static-text'), 'test://static-text is not listed');
    const { contents } = await client.readResource({ uri: 'test://static-text' });
    assert.equal(contents[0].text, STATIC_TEXT);
  });
  await check(`${where}: get a prompt`, async () => {
    const { messages } = await client.getPrompt({
      name: 'test_prompt_with_arguments',
      arguments: { arg1: 'hello', arg2: 'world' }
    });
    assert.match(messages[0].content.text, /arg1='hello', arg2='world'/);
  });
}

async function polls(where, client) {
  await check(`${where}: a stream the server closed is resumed`, async () => {
    assert.ok(textOf(await client.callTool({ name: 'test_reconnection' })));
  });
}

/** The proxy in between cuts the connection after the first progress report. */
async function comesBack(where, client) {
  await check(`${where}: a call outlives its connection`, () => progress(client));
}

/** A client goes away in the middle of a call; another one, later, fetches the result. */
async function handsOver() {
  const request = {
    method: 'tools/call',
    params: { name: 'test_tool_with_progress', arguments: {} }
  };
  const transport = http(args.url);
  const first = newClient();
  await first.connect(transport);
  let token;
  const options = {
    onresumptiontoken: (latest) => (token = latest),
    onprogress: () => transport.close()
  };
  const outcome = await first.request(request, CallToolResultSchema, options).then(
    () => 'answered',
    () => 'abandoned'
  );
  assert.equal(outcome, 'abandoned', 'the first client got the whole answer');
  assert.ok(token, 'no event carried an id');

  const second = newClient();
  const { sessionId } = transport;
  await second.connect(new StreamableHTTPClientTransport(new URL(args.url), { sessionId }));
  const resumed = { resumptionToken: token };
  assert.ok(textOf(await second.request(request, CallToolResultSchema, resumed)));
  await second.close();
}

const http = (url) => new StreamableHTTPClientTransport(new URL(url));
const sseUrl = new URL(args.url.replace(/\/mcp$/, '/sse'));

await connection('http', http(args.url), surface);
await connection('http', http(args.url), polls);
await check('http: another client resumes with the token', handsOver);
await connection('cut', http(args['cut-url']), comesBack);
await connection('sse', new SSEClientTransport(sseUrl), surface);
if (args.stdio) {
  const transport = new StdioClientTransport({ command: args.stdio, args: ['--stdio'] });
  await connection('stdio', transport, surface);
}

console.log(`${passed} passed, ${failed} failed`);
// A client that is still reconnecting would keep the process alive.
process.exit(failed === 0 ? 0 : 1);
