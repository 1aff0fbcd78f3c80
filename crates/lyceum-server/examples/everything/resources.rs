//! Resources: fixed text, fixed bytes, one to watch, and a family.

use lyceum_server::{Builder, Call, Resource, TemplateError, Variables, template};
use serde_json::json;

use crate::content::PNG;

pub(crate) fn add(server: Builder) -> Result<Builder, TemplateError> {
    let by_id = |_: Call, variables: Variables| async move {
        let id = variables.get("id");
        let data = format!("Data for ID: {id}");
        Ok(json!({ "id": id, "templateTest": true, "data": data }).to_string())
    };
    let by_id = template("test://template/{id}/data", "Data by id", by_id)?
        .description("Some data for any id.")
        .mime_type("application/json")
        .complete("id", |_| async { vec!["123".to_owned()] });
    Ok(server
        .resource(
            Resource::text(
                "test://static-text",
                "Static text",
                "This is the content of the static text resource.",
            )
            .description("A text that never changes."),
        )
        .resource(
            Resource::blob("test://static-binary", "Static image", "image/png", PNG)
                .description("An image that never changes."),
        )
        .resource(
            Resource::text("test://watched-resource", "Watched", "Watched resource content.")
                .description("A text clients can watch."),
        )
        .template(by_id))
}
