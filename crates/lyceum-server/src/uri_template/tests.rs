//! Which URIs a template matches, with which values.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(template: &str, uri: &str, expected: Option<&[(&str, &str)]>) {
    let matched = UriTemplate::parse(template).unwrap().matches(uri);
    let matched = matched.as_ref().map(|variables| variables.iter().collect::<Vec<_>>());
    assert_eq!(matched.as_deref(), expected, "{template} against {uri}");
}

#[test]
fn variables_take_what_stands_in_their_place() {
    check("test://template/{id}/data", "test://template/123/data", Some(&[("id", "123")]));
    check("{a}://x", "http://x", Some(&[("a", "http")]));
    check("x/{a}-{b}.txt", "x/1-2.txt.txt", Some(&[("a", "1"), ("b", "2.txt")]));
    check("x/{a}", "x/caf%C3%A9%20%zz", Some(&[("a", "café %zz")]));
    check("x/{a}", "x/%ff", Some(&[("a", "%ff")]));
    check("file:///{+path}", "file:///a/b.txt", Some(&[("path", "a/b.txt")]));
    check("plain", "plain", Some(&[]));
}

#[test]
fn uris_of_another_form_do_not_match() {
    check("test://template/{id}/data", "test://template//data", None);
    check("test://template/{id}/data", "test://template/1/2/data", None);
    check("test://template/{id}/data", "test://template/1/data/", None);
    check("x/{a}-{b}", "x/12", None);
    check("plain", "plainer", None);
    check("aXa{b}aXa", "aXa", None);
}

#[test]
fn templates_that_cannot_be_matched_are_refused() {
    let refused = |template: &str| UriTemplate::parse(template).unwrap_err();
    assert_eq!(refused("x/{a"), TemplateError::Brace);
    assert_eq!(refused("x}/{a}"), TemplateError::Brace);
    assert_eq!(refused("{a}}"), TemplateError::Brace);
    assert_eq!(refused("{?a}"), TemplateError::Expression("?a".into()));
    assert_eq!(refused("{}"), TemplateError::Expression(String::new()));
    assert_eq!(refused("{a}{b}"), TemplateError::Adjacent("b".into()));
    assert_eq!(refused("{a}/{a}"), TemplateError::Repeated("a".into()));
}

proptest! {
    #[test]
    fn an_expanded_template_gives_its_values_back(
        values in prop::collection::vec("[^/]{1,8}", 1..5),
    ) {
        let names: Vec<String> = (0..values.len()).map(|n| format!("v{n}")).collect();
        let template: String = names.iter().map(|name| format!("/{{{name}}}")).collect();
        let uri: String = values.iter().map(|value| format!("/{}", percent_encode(value))).collect();
        let matched = UriTemplate::parse(&template).unwrap().matches(&uri).unwrap();
        for (name, value) in names.iter().zip(&values) {
            prop_assert_eq!(matched.get(name), value);
        }
    }

    #[test]
    fn nothing_panics(template in ".{0,40}", uri in ".{0,40}") {
        if let Ok(template) = UriTemplate::parse(&template) {
            template.matches(&uri);
        }
    }
}

fn percent_encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
