//! Answers `resources/read`: finds the resource or template a URI belongs to and reads it.

use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Member, Request, Revision, RpcError};

use crate::annotations::Meta;
use crate::cache::Cache;
use crate::call::Call;
use crate::error::Fault;
use crate::json::{array, object};
use crate::resource::{Reading, ResourceContents};
use crate::server::Server;
use crate::uri_template::Variables;

/// Bytes of the URI of a resource that can be read or watched.
pub const MAX_URI_BYTES: usize = 8 << 10;

/// A read on its way, and what its resource adds to the contents.
struct Started {
    reading: Reading,
    mime_type: Option<String>,
    cache: Cache,
}

/// Answers `resources/read`.
pub(crate) async fn read(
    server: &Server,
    request: Request,
    cx: Context,
) -> Result<Outcome, RpcError> {
    let uri = uri(&request)?;
    let (revision, identity) = (cx.revision, &server.0.identity);
    let Started { reading, mime_type, cache } = start(server, request, cx, &uri)?;
    let result = match reading.await {
        Ok(mut contents) => {
            for contents in &mut contents {
                contents.complete(&uri, mime_type.as_ref());
            }
            encode(server, &contents, revision, cache)
        }
        Err(error) => match error.fault_without_result(revision.era()) {
            Fault::Interrupted(interruption) => interruption.encode(identity),
            Fault::Rpc(error) => return Err(error),
            Fault::Told(told) => return Err(RpcError::internal(told.first_text())),
        },
    };
    Ok(Outcome::json(result))
}

/// The `uri` of a request.
pub(crate) fn uri(request: &Request) -> Result<String, RpcError> {
    let uri = request.params.text(Member::Uri);
    let uri = uri.ok_or_else(|| RpcError::invalid_params("uri must say which resource"))?;
    if uri.len() > MAX_URI_BYTES {
        return Err(RpcError::invalid_params(format!(
            "uri is {} bytes long; resources have URIs of at most {MAX_URI_BYTES} bytes",
            uri.len()
        )));
    }
    Ok(uri.into_owned())
}

/// Whether anything can be read at `uri`.
pub(crate) fn exists(server: &Server, uri: &str) -> bool {
    server.has_resource(uri)
        || server.0.resources.load().foreign().iter().any(|item| item.key() == uri)
        || server.0.abroad.load().claims(uri)
}

fn start(server: &Server, request: Request, cx: Context, uri: &str) -> Result<Started, RpcError> {
    let era = cx.era();
    if let Some(resource) = server.0.resources.load().get(uri) {
        let call = Call::new(server.clone(), request, cx)?;
        let reading = resource.about.read(call, Variables::default());
        let mime_type = resource.about.mime_type.clone();
        return Ok(Started { reading, mime_type, cache: resource.about.cache });
    }
    let templates = server.0.templates.load();
    let matched = templates.iter().find_map(|template| Some((template, template.matches(uri)?)));
    let Some((template, variables)) = matched else {
        return Err(RpcError::resource_not_found(uri, era));
    };
    let call = Call::new(server.clone(), request, cx)?;
    let reading = template.about.read(call, variables);
    let mime_type = template.about.mime_type.clone();
    Ok(Started { reading, mime_type, cache: template.about.cache })
}

fn encode(
    server: &Server,
    contents: &[ResourceContents],
    revision: Revision,
    cache: Cache,
) -> Vec<u8> {
    object(|result| {
        if revision.era() == Era::Modern {
            result.field("resultType", "complete");
        }
        array(result.member("contents"), contents, |out, contents| contents.encode(revision, out));
        if revision.era() == Era::Modern {
            cache.write(result);
        }
        server.0.identity.write_meta(result, revision.era(), &Meta::default());
    })
}
