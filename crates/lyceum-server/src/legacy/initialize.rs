//! Answers `initialize`. The transport has negotiated the revision already.

use lyceum_http::{Context, Outcome};

use crate::json::object;
use crate::server::Server;

pub(super) fn initialize(server: &Server, cx: &Context) -> Outcome {
    Outcome::json(object(|result| {
        result.field("protocolVersion", cx.revision.as_str());
        server.offer().write(cx.revision, result.member("capabilities"));
        server.0.identity.write(cx.revision, &server.schema(), result.member("serverInfo"));
        result.optional("instructions", server.0.instructions.as_ref());
    }))
}
