//! What the README shows is what happens.

use lyceum_testkit::Request;
use tokio::time::Duration;

use crate::lyceum::Lyceum;

const README: &str = include_str!("../../../../README.md");

/// The console sessions of the README: command and output.
fn sessions() -> Vec<(String, String)> {
    let blocks = README.split("```console\n$ ").skip(1);
    let block = |block: &str| {
        let text = block.split("```").next().unwrap().replace("\\\n", " ");
        let (command, output) = text.split_once('\n').unwrap();
        (command.to_owned(), output.to_owned())
    };
    blocks.map(block).collect()
}

/// The request a `curl -s URL -H HEADER... -d BODY` sends.
fn request(command: &str) -> Request {
    let mut parts = command.split('\'');
    // What curl says when it is not told otherwise.
    let mut request = Request::new("POST", "/mcp").header("accept", "*/*");
    while let (Some(before), Some(quoted)) = (parts.next(), parts.next()) {
        request = match before.trim().rsplit(' ').next() {
            Some("-H") => {
                let (name, value) = quoted.split_once(": ").expect("a header");
                request.set(name, value)
            }
            Some("-d") => request.body(quoted),
            other => panic!("an unknown option {other:?} in {command}"),
        };
    }
    request
}

/// The answer without its version, times and numbers, which differ from run to run.
fn blurred(answer: &str) -> String {
    let mut blurred = String::new();
    for c in answer.trim_end().chars() {
        match c {
            '0'..='9' | '.' if blurred.ends_with('#') => {}
            '0'..='9' => blurred.push('#'),
            c => blurred.push(c),
        }
    }
    blurred
}

#[tokio::test]
async fn transcripts_are_real() {
    let (lyceum, _data) = Lyceum::fresh(&[]).await;
    let sessions = sessions();
    assert_eq!(sessions.len(), 3);
    for (command, output) in sessions {
        assert!(command.starts_with("curl -s http://127.0.0.1:8808/mcp "), "{command}");
        let mut answer = lyceum.call(&request(&command)).await;
        // Right after the start, or a write, search knows the words but not yet the meaning.
        while answer.text().contains("lexical") {
            tokio::time::sleep(Duration::from_millis(20)).await;
            answer = lyceum.call(&request(&command)).await;
        }
        assert_eq!(blurred(answer.text()), blurred(&output), "{command}");
    }
}
