//! Answers `server/discover`: what a modern client may want to know before its first call.

use lyceum_http::{Context, Outcome};
use lyceum_wire::supported_versions_json;

use crate::json::{Object, object};
use crate::server::Server;

/// Answers `server/discover`.
pub(crate) fn discover(server: &Server, cx: &Context) -> Outcome {
    let inner = &server.0;
    Outcome::json(object(|result| {
        result
            .field("resultType", "complete")
            .raw("supportedVersions", &supported_versions_json(cx.served));
        server.offer().write(cx.revision, result.member("capabilities"));
        result.optional("instructions", inner.instructions.as_ref());
        inner.list_cache.write(result);
        let mut meta = Object::open(result.member("_meta"));
        let info = meta.member("io.modelcontextprotocol/serverInfo");
        inner.identity.write(cx.revision, &server.schema(), info);
        meta.close();
    }))
}
