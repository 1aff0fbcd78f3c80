//! Which function answers which method, in which era.

use std::sync::Arc;

use lyceum_http::{About, Context, Handler, Outcome, Session};
use lyceum_wire::{Era, Member, ParamHeaders, Request, RpcError};

use crate::foreign::ForeignNews;
use crate::server::Server;
use crate::shelf::{Listed, Shelf};
use crate::tool::Tool;
use crate::tool_call::Calling;
use crate::{completion, discover, legacy, listen, prompt, resource_read, tasks, tool_call};

impl Handler for Server {
    fn call(
        &self,
        request: Request,
        cx: Context,
    ) -> impl Future<Output = Result<Outcome, RpcError>> + Send {
        if request.method == "tools/call" {
            return tool_call::call(self, request, cx);
        }
        // Boxed, so that the most frequent call does not pay for the size of all others.
        Calling::Boxed(Box::pin(self.answer(request, cx)))
    }

    fn stream_opened(&self, session: &Arc<Session>) {
        self.0.changes.add_session(session);
    }

    fn param_headers(&self, call: &Request) -> Option<Arc<ParamHeaders>> {
        // Few tools ask for headers, so going through them beats looking every tool up twice.
        let tools = self.0.tools.load();
        let called = |tool: &&Arc<Tool>| call.params.text_is(Member::Name, tool.name());
        tools.mirrored().iter().find(called)?.param_headers().cloned()
    }

    fn about(&self) -> About<'_> {
        let identity = &self.0.identity;
        About {
            name: &identity.name,
            version: &identity.version,
            description: identity.description.as_deref().unwrap_or_default(),
            details: self.schema(),
        }
    }
}

impl Server {
    async fn answer(&self, request: Request, cx: Context) -> Result<Outcome, RpcError> {
        match (request.method.as_str(), cx.era()) {
            ("tools/list", _) => self.list(&self.0.tools.load(), &request, &cx),
            ("resources/read", _) => resource_read::read(self, request, cx).await,
            ("resources/list", _) => match self.lister() {
                Some(lister) => lister.list(self, request, cx).await,
                None => self.list_resources(&request, &cx),
            },
            ("resources/templates/list", _) => self.list_templates(&request, &cx),
            ("prompts/get", _) => prompt::get(self, request, cx).await,
            ("prompts/list", _) => self.list(&self.0.prompts.load(), &request, &cx),
            ("completion/complete", _) => completion::complete(self, &request, &cx).await,
            ("server/discover", Era::Modern) => Ok(discover::discover(self, &cx)),
            ("subscriptions/listen", Era::Modern) => {
                listen::listen(self, request, &cx, ForeignNews::default()).await
            }
            ("tasks/get", Era::Modern) => tasks::get(self, &request, &cx),
            ("tasks/update", Era::Modern) => tasks::update(self, &request, &cx),
            ("tasks/cancel", Era::Modern) => tasks::cancel(self, &request, &cx),
            (_, Era::Legacy) => legacy::call(self, &request, &cx).await,
            (method, Era::Modern) => Err(RpcError::method_not_found(method)),
        }
    }

    /// A list of something the server never offered is an unknown method: what `initialize` and
    /// `server/discover` announce and what is answered must agree.
    fn list<T: Listed>(
        &self,
        shelf: &Shelf<T>,
        request: &Request,
        cx: &Context,
    ) -> Result<Outcome, RpcError> {
        if !shelf.is_offered() && !self.is_gateway() {
            return Err(RpcError::method_not_found(&request.method));
        }
        shelf.list(request, cx, &self.presentation())
    }

    fn list_resources(&self, request: &Request, cx: &Context) -> Result<Outcome, RpcError> {
        if !self.has_resources() {
            return Err(RpcError::method_not_found(&request.method));
        }
        self.0.resources.load().list(request, cx, &self.presentation())
    }

    fn list_templates(&self, request: &Request, cx: &Context) -> Result<Outcome, RpcError> {
        if !self.has_resources() {
            return Err(RpcError::method_not_found(&request.method));
        }
        self.0.templates.load().list(request, cx, &self.presentation())
    }

    /// Whether lists of resources are answered. While all are hidden they are not announced, but a
    /// client that knew them before gets an empty list.
    fn has_resources(&self) -> bool {
        self.offer().resources || self.0.lister.is_some() || self.0.templates.load().is_offered()
    }
}
