//! Processes of the program beside the server: `lyceum stdio` on the same data, and conversions of
//! files that are bombs.

use anyhow::Result;
use serde_json::{Value, json};

use super::FIFTEEN_MB;
use crate::abuse::case::{AbuseCase, Attacker};
use crate::abuse::child::ChildCommand;
use crate::abuse::client::{AbusiveClient, Manner};
use crate::abuse::request::{RequestBytes, rpc_body};
use crate::abuse::zip_bomb::word_file;

pub(super) const CASES: [AbuseCase; 3] = [
    AbuseCase::new("stdio-lines", "lines of 15 MB, endless lines and deep JSON for stdio", lines)
        .alone(),
    AbuseCase::new("stdio-unread", "10,000 calls over stdio, no answer read", unread)
        .prepared(super::answers::large_documents)
        .alone(),
    AbuseCase::new("bombs", "conversions of HTML, PDF and Word files that are bombs", bombs)
        .alone(),
];

const STDIO: ChildCommand = ChildCommand { args: &["stdio"], shares_data: true, is_read: true };

fn fed(command: ChildCommand, inputs: Vec<Vec<u8>>) -> AbusiveClient {
    let requests = inputs.into_iter().map(RequestBytes::opaque).collect();
    AbusiveClient::patient(requests).manner(Manner::Feed(command)).pause(50)
}

fn lines(_: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let call = |value: &str| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"search_knowledge\",\"arguments\":{{\"query\":{value}}}}}}}\n"
        )
    };
    let long = call(&format!("\"{}\"", "a".repeat(FIFTEEN_MB)));
    let deep = call(&("[".repeat(2_000_000) + &"]".repeat(2_000_000)));
    let noise = "x\n".repeat(1_000_000);
    let inputs = [long.repeat(4), "x".repeat(200_000_000), deep.repeat(4), noise];
    Ok(vec![fed(STDIO, inputs.map(String::into_bytes).to_vec())])
}

fn unread(_: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let calls = |tool: &str, arguments: &Value, n: usize| {
        let mut body = rpc_body("tools/call", json!({ "name": tool, "arguments": arguments }));
        let mut lines = String::new();
        for id in 0..n {
            body["id"] = id.into();
            lines.push_str(&format!("{body}\n"));
        }
        lines.into_bytes()
    };
    let large = json!({ "document_id": "abuse/large-0.txt" });
    let query = json!({ "query": "river harbour" });
    let unread = vec![
        calls("get_document_for_rewrite", &large, 10_000),
        calls("search_knowledge", &query, 10_000),
    ];
    let read = vec![calls("search_knowledge", &query, 3000)];
    Ok(vec![fed(ChildCommand { is_read: false, ..STDIO }, unread), fed(STDIO, read)])
}

const HTML: ChildCommand =
    ChildCommand { args: &["convert", "--name=a.html"], shares_data: false, is_read: true };
const PDF: ChildCommand = ChildCommand { args: &["convert", "--name=a.pdf"], ..HTML };
const WORD: ChildCommand = ChildCommand { args: &["convert", "--name=a.docx"], ..HTML };

fn bombs(_: &Attacker<'_>) -> Result<Vec<AbusiveClient>> {
    let attributes: String = (0..1_000_000).map(|n| format!(" a{n}=b")).collect();
    let pages = [
        "<div>".repeat(100_000),
        format!("<p{attributes}>a</p>"),
        "<table><tr><td>".repeat(100_000),
        "<b><i><a href=x>".repeat(200_000),
        format!("<ul>{}", "<li><ul>".repeat(100_000)),
        "<!--".repeat(2_000_000),
        "&amp".repeat(3_000_000),
        format!("<pre>{}", "<span>\n".repeat(1_000_000)),
    ];
    let pages = pages.map(|page| format!("<!doctype html><body>{page}").into_bytes()).to_vec();
    let texts =
        ["<w:p><w:r><w:t>a</w:t></w:r></w:p>", "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>"].map(word_file);
    // As many as the server converts at once.
    Ok(vec![fed(HTML, pages).times(2), fed(PDF, looping_pdfs()), fed(WORD, texts.to_vec())])
}

/// PDF files whose objects refer to themselves, in a ring, or far too often.
fn looping_pdfs() -> Vec<Vec<u8>> {
    let ring = "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n\
                2 0 obj<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2/Parent 3 0 R>>endobj\n\
                3 0 obj<</Type/Pages/Kids[2 0 R 2 0 R]/Count 1000000000/Parent 2 0 R>>endobj\n";
    let form = "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n\
                2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n\
                3 0 obj<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</XObject<</F 5 0 R>>>>>>endobj\n\
                4 0 obj<</Length 10>>stream\n/F Do /F Do\nendstream endobj\n\
                5 0 obj<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 11/Resources<</XObject<</F 5 0 R>>>>>>\
                stream\n/F Do /F Do\nendstream endobj\n";
    let kids = "3 0 R ".repeat(1_000_000);
    let wide = format!(
        "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[{kids}]/Count 1000000>>endobj\n\
         3 0 obj<</Type/Page/Parent 2 0 R>>endobj\n"
    );
    let deep = format!("1 0 obj{}endobj\n", "<</A".repeat(1_000_000));
    [ring.to_owned(), form.to_owned(), wide, deep].iter().map(|objects| pdf(objects)).collect()
}

/// A file of these objects, which begin with their numbers, with its table.
fn pdf(objects: &str) -> Vec<u8> {
    let mut file = format!("%PDF-1.4\n{objects}");
    let table = file.len();
    let n = (1..).take_while(|n| file.contains(&format!("{n} 0 obj"))).count() + 1;
    let mut entries = String::from("0000000000 65535 f \n");
    for number in 1..n {
        let at = file.find(&format!("{number} 0 obj")).unwrap_or(0);
        entries.push_str(&format!("{at:010} 00000 n \n"));
    }
    file.push_str(&format!(
        "xref\n0 {n}\n{entries}trailer<</Size {n}/Root 1 0 R/Prev {table}>>\nstartxref\n{table}\n%%EOF"
    ));
    file.into_bytes()
}
