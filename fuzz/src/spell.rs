//! Bodies and headers spelled from tables: every byte picks an entry, so that what the fuzzer changes
//! is the meaning of a message and not whether it is one.

const ENVELOPE: [&str; 26] = [
    r#""jsonrpc":"2.0""#,
    r#""jsonrpc":"1.0""#,
    r#""jsonrpc":2.0"#,
    r#""id":1"#,
    r#""id":"a""#,
    r#""id":null"#,
    r#""id":1.0"#,
    r#""id":1.5"#,
    r#""id":123456789012345678901234567890"#,
    r#""\u0069d":2"#,
    r#""Id":3"#,
    r#""method":"tools/call""#,
    r#""method":"tools/list""#,
    r#""method":"resources/read""#,
    r#""method":"tasks/get""#,
    r#""method":"initialize""#,
    r#""method":"server/discover""#,
    r#""method":7"#,
    r#""m\u0065thod":"ping\n""#,
    r#""METHOD":"ping""#,
    r#""params":[]"#,
    r#""result":{}"#,
    r#""result":null"#,
    r#""error":{"code":-1,"message":"m"}"#,
    r#""error":"e""#,
    r#""x":[{"a":1,"a":2}]"#,
];

const PARAMS: [&str; 22] = [
    r#""name":"echo""#,
    r#""name":" \u00e9cho""#,
    r#""name":1"#,
    r#""uri":"file:///a""#,
    r#""uri":null"#,
    r#""taskId":"t""#,
    r#""arguments":{"city":"Paris","days":3,"deep":{"flag":true}}"#,
    r#""arguments":{"city":" Par\u0069s","days":42.0}"#,
    r#""arguments":{"days":1e2,"city":null,"deep":{}}"#,
    r#""arguments":{"days":1.5,"deep":{"flag":"true"}}"#,
    r#""arguments":[]"#,
    r#""cursor":"c""#,
    r#""requestState":"s""#,
    r#""inputResponses":{"a":{}}"#,
    r#""protocolVersion":"2025-06-18""#,
    r#""requestId":"r""#,
    r#""level":"info""#,
    r#""task":{"ttl":1}"#,
    r#""n\u0061me":"echo""#,
    r#""Name":"other""#,
    r#""_meta":null"#,
    r#""x":{"name":"inner","_meta":{}}"#,
];

const META: [&str; 11] = [
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#,
    r#""io.modelcontextprotocol/protocolVersion":"2025-06-18""#,
    r#""io.modelcontextprotocol/protocolVersion":1"#,
    r#""io.modelcontextprotocol\/protocolVersion":"2026-07-28""#,
    r#""io.modelcontextprotocol/clientCapabilities":{}"#,
    r#""io.modelcontextprotocol/clientCapabilities":{"sampling":{}}"#,
    r#""io.modelcontextprotocol/clientCapabilities":null"#,
    r#""io.modelcontextprotocol/logLevel":"debug""#,
    r#""io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"}"#,
    r#""progressToken":"p""#,
    r#""traceparent":"00-0-0-00""#,
];

const HEADERS: [&str; 24] = [
    "",
    "!",
    "2026-07-28",
    " 2026-07-28\t",
    "2025-06-18",
    "1999-01-01",
    "tools/call",
    "tools/list",
    "resources/read",
    "tasks/get",
    "server/discover",
    "echo",
    "=?base64?ZWNobw==?=",
    "=?base64?IMOpY2hv?=",
    "=?base64?ZWNobw=?=",
    "file:///a",
    "t",
    "Paris",
    "=?base64?IFBhcmlz?=",
    "3",
    "42",
    "1e2",
    "true",
    "false",
];

/// How many bytes spell a body: more only repeat members, and cost time.
const LONGEST: usize = 24;

/// A JSON object, always well-formed, with entries of the tables as members. The byte 255 ends the
/// envelope's own members and starts those of `params`; the next one, those of `params._meta`.
pub(crate) fn body(data: &[u8]) -> Vec<u8> {
    let mut sections = data[..data.len().min(LONGEST)].splitn(3, |&byte| byte == 255);
    let mut envelope = picked(sections.next().unwrap_or_default(), &ENVELOPE);
    if let Some(section) = sections.next() {
        let mut params = picked(section, &PARAMS);
        if let Some(section) = sections.next() {
            params.push(format!(r#""_meta":{{{}}}"#, picked(section, &META).join(",")));
        }
        envelope.push(format!(r#""params":{{{}}}"#, params.join(", ")));
    }
    format!("{{{}}}", envelope.join(",")).into_bytes()
}

/// The value of a header; the first is for an absent one, the second for a repeated one.
pub(crate) fn header(byte: u8) -> &'static [u8] {
    HEADERS[usize::from(byte) % HEADERS.len()].as_bytes()
}

fn picked(bytes: &[u8], table: &[&str]) -> Vec<String> {
    bytes.iter().map(|&byte| table[usize::from(byte) % table.len()].to_owned()).collect()
}
