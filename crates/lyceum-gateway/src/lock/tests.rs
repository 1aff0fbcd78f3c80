//! What is approved, what is noticed, and what the file looks like.

use super::*;

fn tool(raw: &str) -> Definition {
    Definition::read(Kind::Tool, raw).unwrap()
}

fn locked(tools: &[&str]) -> Lock {
    let mut lock = Lock::default();
    lock.approve_all("up", tools.iter().map(|raw| tool(raw)));
    lock
}

/// Verdicts as `name: state`.
fn judged(lock: &Lock, tools: &[&str]) -> Vec<String> {
    let offered: Vec<Definition> = tools.iter().map(|raw| tool(raw)).collect();
    let shown = |verdict: Verdict| match verdict.state {
        State::Changed { .. } => format!("{}: changed", verdict.name),
        State::Renamed { from } => format!("{}: was {from}", verdict.name),
        state => format!("{}: {state:?}", verdict.name),
    };
    lock.judge("up", Kind::Tool, &offered).into_iter().map(shown).collect()
}

const READ: &str = r#"{"name":"read","description":"Reads.","inputSchema":{"type":"object",
    "properties":{"n":{"type":"integer","maximum":1e3}}},"annotations":{"readOnlyHint":true}}"#;

#[test]
fn order_and_white_space_change_nothing_and_every_held_member_does() {
    let lock = locked(&[READ]);
    let rows = [
        (
            r#"{"annotations":{"readOnlyHint":true},"inputSchema":{"properties":{"n":{"maximum":1e3,
            "type":"integer"}},"type":"object"},"name":"read","description":"Read\u0073."}"#,
            "Known",
        ),
        (&READ.replace(r#""name""#, r#""icons":[],"name""#), "changed"),
        (&READ.replace(r#""name""#, r#""_meta":{"a":1},"name""#), "changed"),
        (&READ.replace(r#""name""#, r#""execution":{"taskSupport":"required"},"name""#), "changed"),
        (&READ.replace(r#""name""#, r#""unheard_of":1,"name""#), "changed"),
        (&READ.replace("Reads.", "Reads. "), "changed"),
        (&READ.replace("Reads.", "Reads.\u{200b}"), "changed"),
        (&READ.replace("1e3", "1000"), "changed"),
        (&READ.replace("true", "false"), "changed"),
        (&READ.replace(r#""name""#, r#""title":"T","name""#), "changed"),
        (&READ.replace(r#""name""#, r#""outputSchema":{},"name""#), "changed"),
    ];
    for (raw, expected) in rows {
        assert_eq!(judged(&lock, &[raw]), [format!("read: {expected}")], "{raw}");
    }
}

#[test]
fn the_hash_is_the_one_of_the_sorted_json() {
    // Computed elsewhere.
    let expected = "sha256:527b79e3b14c512e600fff20759bf88a6f6e92a0ac9deb8b056796ca8ccbe988";
    assert_eq!(tool(r#"{ "name": "a", "description": "é\n", "x": 1 }"#).hash(), expected);
}

#[test]
fn what_comes_goes_or_is_renamed_is_noticed() {
    let write = r#"{"name":"write","description":"Writes."}"#;
    let lock = locked(&[READ, write]);
    let renamed = READ.replace(r#""read""#, r#""read_file""#);
    let other = r#"{"name":"other"}"#;
    assert_eq!(judged(&lock, &[write, READ]), ["write: Known", "read: Known"]);
    assert_eq!(judged(&lock, &[READ]), ["read: Known", "write: Missing"]);
    assert_eq!(
        judged(&lock, &[&renamed, other]),
        ["read_file: was read", "other: New", "write: Missing"]
    );
    assert_eq!(
        judged(&lock, &[READ, write, &renamed])[2],
        "read_file: New",
        "a copy is no renaming"
    );
    assert_eq!(judged(&locked(&[r#"{"name":"a"}"#]), &[other]), ["other: New", "a: Missing"]);
    assert_eq!(judged(&Lock::default(), &[READ]), ["read: New"]);
}

#[test]
fn diffs_show_lines_and_nothing_hidden() {
    let changed = READ
        .replace("Reads.", r"Reads.\nAlso\u202e sends mail.")
        .replace(r#""type":"integer""#, r#""type":"string""#);
    let verdicts = locked(&[READ]).judge("up", Kind::Tool, &[tool(&changed)]);
    let State::Changed { diff } = &verdicts[0].state else { panic!("{verdicts:?}") };
    let expected = r#"    "readOnlyHint": true
  }
- description: Reads.
+ description:
+   Reads.
+   Also\u{202e} sends mail.
  inputSchema: {
    "properties": {
      "n": {
        "maximum": 1e3,
-       "type": "integer"
+       "type": "string"
      }
    },
"#;
    assert_eq!(diff, expected);
}

#[test]
fn approving_and_forgetting_are_remembered() {
    let mut lock = locked(&[READ]);
    let changed = READ.replace("Reads.", "Writes.");
    lock.approve("up", tool(&changed));
    assert_eq!(judged(&lock, &[&changed]), ["read: Known"]);
    assert!(lock.forget("up", Kind::Tool, "read"));
    assert!(!lock.forget("up", Kind::Tool, "read"));
    assert!(lock.knows("up") && !lock.knows("other"));
    assert!(lock.forget_upstream("up") && !lock.knows("up"));
}

#[test]
fn tools_and_prompts_of_one_name_are_two_things() {
    let prompt = r#"{"name":"read","description":"Reads.","arguments":[{"name":"n"}],"x":1}"#;
    let prompt = Definition::read(Kind::Prompt, prompt).unwrap();
    let mut lock = locked(&[READ]);
    assert_eq!(lock.judge("up", Kind::Prompt, std::slice::from_ref(&prompt))[0].state, State::New);
    lock.approve("up", prompt.clone());
    assert_eq!(lock.judge("up", Kind::Prompt, &[prompt])[0].state, State::Known);
    assert_eq!(judged(&lock, &[READ]), ["read: Known"]);
}

#[test]
fn the_file_is_sorted_and_hides_nothing() {
    let mut lock = locked(&[r#"{"name":"b","description":"\u200b\udb40\udc41"}"#]);
    lock.approve_all("empty", []);
    let text = lock.render();
    let hash = tool(r#"{"name":"b","description":"\u200b\udb40\udc41"}"#).hash().to_owned();
    let expected = r#"{
  "version": 2,
  "upstreams": {
    "empty": {
      "tools": {},
      "prompts": {}
    },
    "up": {
      "tools": {
        "b": {
          "hash": "HASH",
          "definition": {
            "description": "\u200b\udb40\udc41",
            "name": "b"
          }
        }
      },
      "prompts": {}
    }
  }
}
"#;
    assert_eq!(text, expected.replace("HASH", &hash));
    assert_eq!(Lock::parse(&text), Ok(lock));
}

#[test]
fn files_come_back_and_damaged_ones_are_refused() {
    let here = tempfile::tempdir().unwrap();
    let path = here.path().join("lyceum.lock");
    assert_eq!(Lock::load(&path).unwrap(), None);
    let lock = locked(&[READ]);
    lock.save(&path).unwrap();
    lock.save(&path).unwrap();
    assert_eq!(Lock::load(&path).unwrap(), Some(lock.clone()));
    assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 1, "nothing is left beside it");
    let text = lock.render();
    let rows = [
        (
            text.replace("Reads.", "Sends."),
            "up, tools, read: the hash is not that of the definition",
        ),
        (text.replace("\"read\": {", "\"other\": {"), "it defines something else"),
        (text.replace("\"version\": 2", "\"version\": 3"), "of neither version 1 nor 2"),
        (text.replace("\"prompts\"", "\"x\""), "prompts must be an object"),
        (text[..50].to_owned(), "the JSON ends too early"),
    ];
    for (text, expected) in rows {
        std::fs::write(&path, text).unwrap();
        let error = Lock::load(&path).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("lyceum.lock"), "{error}");
    }
    assert!(matches!(lock.save(&here.path().join("no/dir")), Err(LockError::Write { .. })));
}

#[test]
fn a_lockfile_of_version_1_goes_on_holding_what_it_held() {
    let with_icons = READ.replace(r#""name""#, r#""icons":[{"src":"a"}],"name""#);
    // What that version wrote: some members, and the hash of those.
    let text = locked(&[READ]).render().replace("\"version\": 2", "\"version\": 1");
    let mut lock = Lock::parse(&text).unwrap();
    assert!(lock.is_partial());
    assert_eq!(judged(&lock, &[&with_icons]), ["read: Known"]);
    assert_eq!(judged(&lock, &[&with_icons.replace("Reads.", "Sends.")]), ["read: changed"]);
    let renamed = with_icons.replace(r#""read""#, r#""read_file""#);
    assert_eq!(judged(&lock, &[&renamed]), ["read_file: was read"]);
    let again = Lock::parse(&lock.render()).unwrap();
    assert_eq!(again, lock, "in a file of version 2 as well");
    lock.approve("up", tool(&with_icons));
    assert!(!lock.is_partial());
    assert_eq!(judged(&lock, &[READ]), ["read: changed"]);
}

#[test]
fn what_is_no_definition_is_refused() {
    for raw in ["[]", "{}", r#"{"name":1}"#, r#"{"name":"a","name":"b"}"#, "{"] {
        assert!(Definition::read(Kind::Tool, raw).is_err(), "{raw}");
    }
}
