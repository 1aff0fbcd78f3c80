//! Each house rule, broken once.

use super::*;

const HEADER: &str = "//! What it is.\n";

/// How many complaints `text` earns as the file `path`.
#[track_caller]
fn check(path: &str, text: &str, expected: usize) {
    let complaints = inspect(path, text);
    assert_eq!(complaints.len(), expected, "{complaints:?}");
}

#[test]
fn a_clean_file_earns_no_complaint() {
    check("crates/a/src/lib.rs", HEADER, 0);
}

#[test]
fn a_source_file_opens_with_its_purpose() {
    check("crates/a/src/lib.rs", "use std::fs;\n", 1);
    check("crates/a/README.md", "use std::fs;\n", 0);
}

#[test]
fn unfinished_work_stays_off_main() {
    for word in UNFINISHED {
        check("crates/a/src/lib.rs", &format!("{HEADER}// {word} later\n"), 1);
    }
    check("crates/a/src/lib.rs", &format!("{HEADER}// {}_LIST is a name\n", UNFINISHED[0]), 0);
}

#[test]
fn one_machines_places_stay_off_main() {
    for place in LOCAL {
        check("docs/start.md", &format!("see {place} there\n"), 1);
    }
    check("Cargo.lock", LOCAL[9], 0);
    check("docs/start.md", "the network/ folder\n", 0);
}

#[test]
fn a_long_file_is_split_unless_its_length_is_tests() {
    let long = format!("{HEADER}{}", "fn f() {}\n".repeat(LONGEST_FILE));
    check("crates/a/src/lib.rs", &long, 1);
    check("crates/a/src/lib/tests.rs", &long, 0);
    check("crates/a/tests/it/main.rs", &long, 0);
    let tests = format!("{HEADER}#[cfg(test)]\nmod tests {{\n{}}}\n", "//\n".repeat(LONGEST_FILE));
    check("crates/a/src/lib.rs", &tests, 0);
}

#[test]
fn documents_fit_one_sitting() {
    check("README.md", &"line\n".repeat(151), 1);
    check("README.md", &"line\n".repeat(150), 0);
    check("ARCHITECTURE.md", &"line\n".repeat(251), 1);
}

#[test]
fn a_decision_number_is_used_once() {
    let numbers = |names: &[&str]| {
        let paths: Vec<String> = names.iter().map(|name| format!("docs/adr/{name}")).collect();
        repeated_decision_numbers(&paths).len()
    };
    assert_eq!(numbers(&["0001-a.md", "0002-b.md"]), 0);
    assert_eq!(numbers(&["0001-a.md", "0001-b.md"]), 1);
    assert_eq!(numbers(&["first.md"]), 1);
}
