//! Names: the sanitiser's examples, collisions, and what holds whatever upstreams are called.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

/// `name:prefix:tool,tool` per upstream.
fn assign(offers: &[&str]) -> Names {
    let parts: Vec<Vec<&str>> = offers.iter().map(|offer| offer.splitn(3, ':').collect()).collect();
    let tools: Vec<Vec<&str>> = parts.iter().map(|part| part[2].split(',').collect()).collect();
    let offers: Vec<Offer<'_>> = parts
        .iter()
        .zip(&tools)
        .map(|(part, names)| Offer { upstream: part[0], prefix: part[1], names })
        .collect();
    Names::assign(&offers)
}

#[test]
fn k31_names_are_sanitised_as_knox_does() {
    let rows: &[(&str, &str)] = &[
        ("server.tool", "server_tool"),
        ("my-server.read_file", "my-server_read_file"),
        ("calculator.add@numbers", "calculator_add_numbers"),
        ("123invalid", "_123invalid"),
        ("-x", "_-x"),
        ("", "unknown_tool"),
        (" \t", "unknown_tool"),
        ("_", "unknown_tool"),
        (".", "unknown_tool"),
        ("été", "_t_"),
    ];
    for &(name, expected) in rows {
        assert_eq!(sanitise(name), expected, "{name:?}");
    }
}

#[test]
fn k30_a_tool_is_named_after_its_upstream_and_itself() {
    let names = assign(&["my-server:my-server:read.file", "1st:1st:x", "bare::get,a.b,9-x"]);
    let rows = [
        ("my-server", "read.file", "my-server_read_file"),
        ("1st", "x", "_1st_x"),
        ("bare", "get", "get"),
        ("bare", "a.b", "a_b"),
        ("bare", "9-x", "9-x"),
    ];
    for (upstream, name, expected) in rows {
        assert_eq!(names.public(upstream, name), Some(expected));
        assert_eq!(names.find(expected).map(|source| source.name.as_str()), Some(name));
    }
    assert!(names.collisions().is_empty());
    assert_eq!(names.public("bare", "nothing"), None);
}

#[test]
fn long_names_end_in_digits_of_their_hash() {
    let long = "a".repeat(62);
    let names = assign(&[&format!("up:up:{long},{long}b")]);
    // SHA-256 of "up", NUL and sixty-two times "a", computed elsewhere.
    let expected = format!("up_{}_23a101", "a".repeat(54));
    assert_eq!(names.public("up", &long), Some(expected.as_str()));
    assert_eq!(expected.len(), MAX_NAME);
    assert!(names.collisions().is_empty(), "being long is no collision");
    let fits = "a".repeat(61);
    assert_eq!(assign(&[&format!("up:up:{fits}")]).public("up", &fits).unwrap().len(), 64);
}

#[test]
fn the_first_upstream_keeps_the_plain_name_and_the_other_is_reported() {
    let names = assign(&["one::get", "two::get,put"]);
    assert_eq!(names.public("one", "get"), Some("get"));
    assert_eq!(names.public("two", "put"), Some("put"));
    let renamed = names.public("two", "get").unwrap();
    let [collision] = names.collisions() else { panic!("{:?}", names.collisions()) };
    assert_eq!((collision.name.as_str(), collision.renamed.as_str()), ("get", renamed));
    assert_eq!((&*collision.keeper.upstream, &*collision.other.upstream), ("one", "two"));
}

#[test]
fn the_order_in_which_an_upstream_lists_its_tools_does_not_matter() {
    for tools in ["a.b,a_b,a@b", "a_b,a@b,a.b", "a@b,a.b,a_b,a.b"] {
        let names = assign(&[&format!("up:up:{tools}")]);
        assert_eq!(names.public("up", "a_b"), Some("up_a_b"), "{tools}");
        assert_eq!(names.collisions().len(), 2, "{tools}");
    }
}

#[test]
fn a_name_that_looks_like_a_hash_takes_nothing_away() {
    let marked = assign(&["one::get", "two::get"]).public("two", "get").unwrap().to_owned();
    let names = assign(&[&format!("one::get,{marked}"), "two::get"]);
    assert_eq!(names.public("one", &marked), Some(marked.as_str()));
    let other = names.public("two", "get").unwrap();
    assert!(other != marked && is_public(other), "{other}");
}

#[test]
fn k32_calls_find_their_tool_by_every_form() {
    let aliases = [("old", "read"), ("web_get", "read"), ("dead", "gone")].map(|(alias, name)| {
        (alias.to_owned(), Source { upstream: "files".to_owned(), name: name.to_owned() })
    });
    let names = assign(&["files:files:read,a.b", "web:web:get,read"]).with_aliases(aliases);
    let rows = [
        ("files_read", Some("files read")),
        ("old", Some("files read")),
        ("web_get", Some("web get")),
        ("files.read", Some("files read")),
        ("files.a.b", Some("files a.b")),
        ("get", Some("web get")),
        ("a.b", Some("files a.b")),
        ("read", None),
        ("dead", None),
        ("files.nothing", None),
    ];
    for (asked, expected) in rows {
        let found = names.route(asked).map(|source| format!("{} {}", source.upstream, source.name));
        assert_eq!(found.as_deref(), expected, "{asked}");
    }
    let dead: Vec<&str> = names.dead_aliases().iter().map(|(alias, _)| alias.as_str()).collect();
    assert_eq!(dead, ["web_get"]);
}

#[test]
fn k32_the_dotted_form_takes_the_prefix_as_well_as_the_name() {
    let names = assign(&["my-tools:My_Tools:read", "other:my-tools:read,write", "bare::get"]);
    let rows = [
        ("My_Tools.read", Some("my-tools read")),
        ("My_Tools.write", None),
        // What clients see of an upstream comes before what another one is called.
        ("my-tools.read", Some("other read")),
        ("my-tools.write", Some("other write")),
        ("other.write", Some("other write")),
        ("bare.get", Some("bare get")),
        (".get", None),
    ];
    for (asked, expected) in rows {
        let found = names.route(asked);
        let told = found.map(|source| format!("{} {}", source.upstream, source.name));
        assert_eq!(told.as_deref(), expected, "{asked}");
        assert!(found.is_none_or(|source| names.is_dotted(asked, source)), "{asked}");
    }
    let get = names.route("get").expect("it is the only one");
    assert!(!names.is_dotted("get", get) && !names.is_dotted("x.get", get));
}

#[test]
fn a_prefix_may_hold_the_separator_and_the_longest_counts() {
    let offer = |upstream, prefix, names| Offer { upstream, prefix, names };
    let names = Names::assign(&[
        offer("one", "team", &["docs.get", "get"]),
        offer("two", "team.docs", &["get", "a.b"]),
    ]);
    for (asked, expected) in [
        ("team.get", Some("one get")),
        ("team.docs.get", Some("two get")),
        ("team.docs.a.b", Some("two a.b")),
        ("two.a.b", Some("two a.b")),
        ("team.docs.none", None),
        ("team.docs.", None),
    ] {
        let found = names.route(asked);
        let told = found.map(|source| format!("{} {}", source.upstream, source.name));
        assert_eq!(told.as_deref(), expected, "{asked}");
        assert!(found.is_none_or(|source| names.is_dotted(asked, source)), "{asked}");
    }
    let splits: Vec<_> = UriForm::Plus.splits("a+b+c://x").collect();
    assert_eq!(splits, [("a+b", "c://x"), ("a", "b+c://x")]);
}

#[test]
fn uris_come_back_as_they_went() {
    let uri = "file:///srv/a+b.c.md";
    for (form, public, nothing) in [
        (UriForm::Plus, "files+file:///srv/a+b.c.md", ["file:///srv", "+file:///a", "files+"]),
        (UriForm::Dot, "files.file:///srv/a+b.c.md", ["files", ".file:///a", "files."]),
    ] {
        assert_eq!(form.public("files", uri), public);
        assert!(form.splits(public).any(|halves| halves == ("files", uri)));
        assert_eq!(form.public("", uri), uri);
        for nothing in nothing {
            assert_eq!(form.splits(nothing).next(), None, "{nothing}");
        }
    }
}

#[test]
fn upstreams_have_short_plain_names() {
    for good in ["a", "my-server-2", &"x".repeat(32)] {
        assert!(is_upstream(good), "{good}");
    }
    for bad in ["", "A", "a_b", "a.b", "é", &"x".repeat(33)] {
        assert!(!is_upstream(bad), "{bad}");
    }
}

#[test]
fn upstreams_get_valid_names_near_their_old_ones() {
    let long = "x".repeat(40);
    let rows: &[(&str, &[&str], &str)] = &[
        ("files", &[], "files"),
        ("My Server_2", &[], "my-server-2"),
        ("@scope/server.git", &[], "scope-server-git"),
        ("été", &[], "t"),
        ("日本", &[], "upstream"),
        ("files", &["files", "files-2"], "files-3"),
        (&long, &[&long[..32]], &format!("{}-2", &long[..30])),
        ("a234567890123456789012345678901-b", &[], "a234567890123456789012345678901"),
    ];
    for (wanted, taken, expected) in rows {
        let taken: Vec<String> = taken.iter().map(|name| (*name).to_owned()).collect();
        let name = upstream_name(wanted, &taken);
        assert_eq!(&name, expected, "{wanted}");
        assert!(is_upstream(&name), "{name}");
    }
}

/// Few letters, so that things collide.
fn offers() -> impl Strategy<Value = Vec<(String, Vec<String>)>> {
    let tool = prop_oneof!["[ab._é]{0,3}", "[ab.]{55,70}", ".{0,8}"];
    let offer = (prop_oneof!["", "[a1-]{1,2}", "[a_]{30,32}"], prop::collection::vec(tool, 0..6));
    prop::collection::vec(offer, 0..5)
}

fn assigned(offers: &[(String, Vec<String>)]) -> Vec<(usize, String, String)> {
    let upstreams: Vec<String> = (0..offers.len()).map(|n| format!("u{n}")).collect();
    let tools: Vec<Vec<&str>> =
        offers.iter().map(|(_, tools)| tools.iter().map(String::as_str).collect()).collect();
    let given: Vec<Offer<'_>> = (0..offers.len())
        .map(|n| Offer { upstream: &upstreams[n], prefix: &offers[n].0, names: &tools[n] })
        .collect();
    let names = Names::assign(&given);
    let mut all = Vec::new();
    for (n, tools) in tools.iter().enumerate() {
        for tool in tools.iter().collect::<HashSet<_>>() {
            let public = names.public(&upstreams[n], tool).expect("everything has a name");
            let source = names.find(public).expect("every name leads back");
            assert_eq!((&*source.upstream, &*source.name), (&*upstreams[n], *tool));
            all.push((n, (*tool).to_owned(), public.to_owned()));
        }
    }
    all.sort();
    all
}

proptest! {
    #[test]
    fn names_are_valid_and_unique_and_stay_when_upstreams_are_added(offers in offers()) {
        let all = assigned(&offers);
        prop_assert!(all.iter().all(|(_, _, public)| is_public(public)), "{:?}", all);
        let distinct: HashSet<&String> = all.iter().map(|(_, _, public)| public).collect();
        prop_assert_eq!(distinct.len(), all.len());
        for n in 0..offers.len() {
            let mut before = assigned(&offers[..n]);
            let mut after = all.clone();
            after.retain(|(upstream, _, _)| *upstream < n);
            before.sort();
            prop_assert_eq!(before, after);
        }
    }
}

#[test]
fn nobody_has_names_among_those_of_an_earlier_upstream() {
    let offers = [
        Offer { upstream: "", prefix: "", names: &["files_own"] },
        Offer { upstream: "files", prefix: "files", names: &["files_list"] },
        Offer { upstream: "bare", prefix: "", names: &["files_read", "filesystem", "list"] },
    ];
    let names = Names::assign(&offers);
    let added = Names::assign(&[offers[0], offers[2], offers[1]]);
    assert_eq!(added.public("bare", "files_read"), Some("files_read"), "it was there before");
    assert_eq!(names.public("", "files_own"), Some("files_own"), "the server itself may");
    assert_eq!(names.public("bare", "files_read"), Some("bare_files_read"));
    assert_eq!(names.public("bare", "filesystem"), Some("filesystem"));
    let [collision] = names.collisions() else { panic!("{:?}", names.collisions()) };
    let told = [&collision.name, &collision.keeper.upstream, &collision.renamed];
    assert_eq!(told, ["files_read", "files", "bare_files_read"]);
    let leads = |asked| names.route(asked).map(|source| source.upstream.as_str());
    assert_eq!(leads("files_read"), None, "that would be a tool of files");
    assert_eq!(leads("bare_files_read"), Some("bare"));
    assert_eq!(leads("bare.files_read"), Some("bare"));
    assert_eq!(leads("files_list"), Some("files"), "its own name, and its own beginning");
}
