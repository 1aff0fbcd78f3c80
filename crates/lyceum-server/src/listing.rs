//! Resources that are listed by a function, for servers that have more of them than they can
//! register one by one.

use std::future::Future;
use std::pin::Pin;

use lyceum_http::{Context, Outcome};
use lyceum_wire::{Era, Request, RpcError};

use crate::annotations::Meta;
use crate::call::Call;
use crate::content::ResourceLink;
use crate::error::{Fault, ToolError};
use crate::json::{Object, array, object};
use crate::page;
use crate::server::Server;

/// Part of a list of resources.
#[derive(Debug, Clone, Default)]
pub struct ResourcePage {
    /// What is there to read.
    pub resources: Vec<ResourceLink>,
    /// Where the next part begins, in the function's own words; `None` at the end. Clients get it
    /// sealed.
    pub next: Option<String>,
}

/// Lists resources from a place on.
pub(crate) struct Lister(Box<Function>);

type Listing = Pin<Box<dyn Future<Output = Result<ResourcePage, ToolError>> + Send>>;
type Function = dyn Fn(Call, Option<String>) -> Listing + Send + Sync;

impl Lister {
    pub(crate) fn new<F, Fut>(list: F) -> Self
    where
        F: Fn(Call, Option<String>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ResourcePage, ToolError>> + Send + 'static,
    {
        Self(Box::new(move |call, from| Box::pin(list(call, from))))
    }

    /// Answers `resources/list`.
    pub(crate) async fn list(
        &self,
        server: &Server,
        request: Request,
        cx: Context,
    ) -> Result<Outcome, RpcError> {
        let from = page::place(&request, &cx)?;
        let call = Call::new(server.clone(), request, cx.clone())?;
        match self.0(call, from).await {
            Ok(page) => Ok(Outcome::json(encode(server, &page, &cx))),
            Err(error) => match error.fault_without_result(cx.era()) {
                Fault::Interrupted(interruption) => {
                    Ok(Outcome::json(interruption.encode(&server.0.identity)))
                }
                Fault::Rpc(error) => Err(error),
                Fault::Told(told) => Err(RpcError::internal(told.first_text())),
            },
        }
    }
}

impl std::fmt::Debug for Lister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lister")
    }
}

fn encode(server: &Server, page: &ResourcePage, cx: &Context) -> Vec<u8> {
    object(|result| {
        if cx.era() == Era::Modern {
            result.field("resultType", "complete");
        }
        let shelf = server.0.resources.load();
        // What other servers offer follows the last page.
        let foreign = if page.next.is_none() { shelf.foreign() } else { &[] };
        let all = page.resources.iter().map(Err).chain(foreign.iter().map(Ok));
        array(result.member("resources"), all, |out, item| match item {
            Ok(foreign) => out.extend_from_slice(foreign.definition(cx.era())),
            Err(link) => {
                let mut item = Object::open(out);
                link.write(&mut item, cx.revision);
                item.close();
            }
        });
        let next = page.next.as_ref().map(|next| page::place_cursor(next, cx));
        result.optional("nextCursor", next.as_ref());
        if cx.era() == Era::Modern {
            // What a function lists may change at any time.
            crate::cache::Cache::NONE.write(result);
        }
        server.0.identity.write_meta(result, cx.era(), &Meta::default());
    })
}
