//! Answers `resources/read`: finds the resource or template a URI belongs to and reads it.

use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Member, Request, Revision, RpcError};

use crate::annotations::Meta;
use crate::cache::Cache;
use crate::call::Call;
use crate::error::{Fault, ToolError};
use crate::json::{array, object};
use crate::refused;
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

impl Started {
    /// The contents, under the URI they were asked for by.
    async fn finish(self, uri: &str) -> Result<(Vec<ResourceContents>, Cache), ToolError> {
        let mut contents = self.reading.await?;
        for contents in &mut contents {
            contents.complete(uri, self.mime_type.as_ref());
        }
        Ok((contents, self.cache))
    }
}

/// Answers `resources/read`.
pub(crate) async fn read(
    server: &Server,
    request: Request,
    cx: Context,
) -> Result<Outcome, RpcError> {
    let uri = uri(&request)?;
    let (revision, identity) = (cx.revision, &server.0.identity);
    let call = Call::new(server.clone(), request, cx)?;
    let read = match start(server, call, &uri) {
        Ok(started) => started.finish(&uri).await,
        Err(call) => Err(refused::unknown_resource(*call, uri).await),
    };
    let result = match read {
        Ok((contents, cache)) => return written(server, contents, revision, cache).await,
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

/// Begins to read what is at `uri`; gives the call back when there is nothing.
fn start(server: &Server, call: Call, uri: &str) -> Result<Started, Box<Call>> {
    if let Some(resource) = server.0.resources.load().get(uri) {
        let reading = resource.about.read(call, Variables::default());
        let mime_type = resource.about.mime_type.clone();
        return Ok(Started { reading, mime_type, cache: resource.about.cache });
    }
    let templates = server.0.templates.load();
    let matched = templates.iter().find_map(|template| Some((template, template.matches(uri)?)));
    let Some((template, variables)) = matched else { return Err(Box::new(call)) };
    let reading = template.about.read(call, variables);
    let mime_type = template.about.mime_type.clone();
    Ok(Started { reading, mime_type, cache: template.about.cache })
}

/// The outcome; large contents are written on a thread on which nothing else waits.
async fn written(
    server: &Server,
    mut contents: Vec<ResourceContents>,
    revision: Revision,
    cache: Cache,
) -> Result<Outcome, RpcError> {
    const LARGE: usize = 256 << 10;
    let charge = contents.iter_mut().find_map(ResourceContents::take_charge);
    let size: usize = contents.iter().map(ResourceContents::size).sum();
    let json = match size > LARGE {
        false => encode(server, &contents, revision, cache),
        true => {
            let server = server.clone();
            let encode = move || encode(&server, &contents, revision, cache);
            let writing = lyceum_work::run_bulk(encode);
            writing.await.map_err(|_| RpcError::internal("the resource could not be written"))?
        }
    };
    Ok(Outcome::json(json).charged(charge))
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
