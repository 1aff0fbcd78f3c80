//! Forms from types: which fields survive, and in which words.

use super::*;

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Order {
    /// How many
    count: u32,
    note: Option<String>,
    size: Size,
    extra: Option<Finish>,
    toppings: Vec<Size>,
    #[schemars(email)]
    mail: String,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
enum Size {
    Small,
    Large,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
enum Finish {
    /// Shiny
    Gloss,
    /// Plain
    Matt,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema matters")]
struct Nested {
    order: Order,
}

#[test]
fn a_type_becomes_a_flat_form() {
    insta::assert_snapshot!(Schema::form::<Order>().unwrap().as_str(), @r#"{"properties":{"count":{"description":"How many","minimum":0,"type":"integer"},"extra":{"oneOf":[{"const":"Gloss","title":"Shiny"},{"const":"Matt","title":"Plain"}],"type":"string"},"mail":{"format":"email","type":"string"},"note":{"type":"string"},"size":{"enum":["Small","Large"],"type":"string"},"toppings":{"items":{"enum":["Small","Large"],"type":"string"},"type":"array"}},"required":["count","size","toppings","mail"],"type":"object"}"#);
}

#[test]
fn forms_keep_the_formats_they_know() {
    let rows =
        [("email", true), ("uri", true), ("date", true), ("date-time", true), ("uuid", false)];
    for (format, is_kept) in rows {
        let field = serde_json::json!({ "type": "string", "format": format });
        let kept = form_field(&field).unwrap().get("format").is_some();
        assert_eq!(kept, is_kept, "{format}");
    }
}

#[test]
fn a_nested_type_is_no_form() {
    let error = Schema::form::<Nested>().unwrap_err();
    insta::assert_snapshot!(error, @"a form has only text, number, boolean and choice fields; `order` is none of these");
}

#[test]
fn numbers_have_no_formats_and_texts_keep_theirs() {
    for schema in [Schema::of::<Order>(), Schema::of_output::<Nested>()] {
        let text = schema.as_str();
        assert!(text.contains(r#""count":{"description":"How many","minimum":0"#), "{text}");
        assert_eq!(text.matches("\"format\"").count(), 1, "{text}");
        assert!(text.contains(r#""format":"email""#), "{text}");
    }
}

#[test]
fn argument_schemas_name_their_dialect_and_are_objects() {
    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema matters")]
    #[serde(untagged)]
    enum Either {
        A { a: String },
        B { b: String },
    }
    let schema: Value = serde_json::from_str(Schema::of::<Either>().as_str()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["type"], "object");
}

#[test]
fn a_given_schema_stays_verbatim_or_is_refused() {
    let check = |text: &str, accepted: bool| {
        let schema = Schema::from_json(text);
        assert_eq!(schema.is_ok(), accepted, "{text}");
        if let Ok(schema) = schema {
            assert_eq!(schema.as_str(), text);
        }
    };
    check(r#"{ "type":"object", "$defs":{"z":1,"a":2} }"#, true);
    check(r#"{"type":"string"}"#, false);
    check(r#"{"properties":{}}"#, false);
    check("[]", false);
    check("{", false);
}
