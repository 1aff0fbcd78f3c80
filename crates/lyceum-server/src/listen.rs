//! Answers `subscriptions/listen`: the modern stream of changes.

use std::collections::BTreeSet;

use bytes::Bytes;
use lyceum_http::{Context, Delivery, Outcome};
use lyceum_wire::{Id, Object as Members, Request, RpcError, Writer, encode};

use crate::changes::Change;
use crate::error::Capability;
use crate::foreign::ForeignNews;
use crate::json::{Object, object};
use crate::listen_filter::ListenFilter;
use crate::resource_read::exists;
use crate::server::Server;
use crate::tasks::{self, Owner};

/// The `_meta` key that says which stream a message belongs to.
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Answers `subscriptions/listen`: acknowledges, then tells what changes until the client leaves
/// or the server closes.
pub(crate) async fn listen(
    server: &Server,
    request: Request,
    cx: &Context,
    mut foreign: ForeignNews,
) -> Result<Outcome, RpcError> {
    let filter = ListenFilter::read(&request)?;
    // A stream may last for days: of its request nothing but the id is kept.
    let Request { id, params, .. } = request;
    drop(params);
    if filter.task_ids.is_some() && !cx.capabilities.has(Capability::Tasks.bit()) {
        return Err(RpcError::missing_capability(Capability::Tasks.required()));
    }
    let mut wanted = honoured(filter, server, cx);
    wanted.extend(foreign.tasks.drain(..).map(Change::Task));
    // Listening starts before the acknowledgement, so that nothing is missed in between.
    let acknowledgement = acknowledgement(&wanted, &id);
    let listening = server.0.changes.listen(cx.caller(), wanted).map_err(RpcError::internal)?;
    if cx.outlet.send(acknowledgement).await == Delivery::Dropped {
        let problem = "subscriptions/listen needs a client that accepts text/event-stream";
        return Err(RpcError::invalid_request(problem));
    }
    loop {
        let messages = tokio::select! {
            changes = listening.next() => match changes {
                Some(changes) => changes
                    .iter()
                    .filter_map(|change| message(server, change, &id, cx))
                    .collect(),
                None => break,
            },
            Some(task) = foreign.next() => vec![foreign_task(&task, &id)],
        };
        for message in messages {
            cx.outlet.send(message).await;
        }
    }
    Ok(Outcome::json(object(|result| {
        result.field("resultType", "complete");
        write_meta(result, &id);
    })))
}

/// What of a filter this server can tell.
fn honoured(filter: ListenFilter, server: &Server, cx: &Context) -> BTreeSet<Change> {
    let offer = server.offer();
    let mut wanted = BTreeSet::new();
    let lists = [
        (filter.tools_list_changed && offer.tools, Change::Tools),
        (filter.prompts_list_changed && offer.prompts, Change::Prompts),
        (filter.resources_list_changed && offer.resources, Change::Resources),
    ];
    wanted.extend(lists.into_iter().filter(|(wanted, _)| *wanted).map(|(_, change)| change));
    let uris = filter.resource_subscriptions.into_iter();
    wanted.extend(uris.filter(|uri| exists(server, uri)).map(Change::Resource));
    let (owner, tasks) = (Owner::of(cx), &server.0.tasks);
    let ids = filter.task_ids.into_iter().flatten();
    wanted.extend(ids.filter(|id| tasks.get(id, &owner).is_some()).map(Change::Task));
    wanted
}

fn acknowledgement(wanted: &BTreeSet<Change>, id: &Id) -> Bytes {
    let select = |pick: fn(&Change) -> Option<&String>| -> Vec<&String> {
        wanted.iter().filter_map(pick).collect()
    };
    let uris = select(|change| match change {
        Change::Resource(uri) => Some(uri),
        _ => None,
    });
    let tasks = select(|change| match change {
        Change::Task(task) => Some(task),
        _ => None,
    });
    let params = object(|params| {
        let mut honoured = Object::open(params.member("notifications"));
        for (change, name) in [
            (Change::Tools, "toolsListChanged"),
            (Change::Prompts, "promptsListChanged"),
            (Change::Resources, "resourcesListChanged"),
        ] {
            if wanted.contains(&change) {
                honoured.field(name, &true);
            }
        }
        for (name, items) in [("resourceSubscriptions", uris), ("taskIds", tasks)] {
            if !items.is_empty() {
                honoured.field(name, &items);
            }
        }
        honoured.close();
        write_meta(params, id);
    });
    encode::notification("notifications/subscriptions/acknowledged", Some(&params))
}

/// The notification of a change; `None` when there is nothing to tell any more.
fn message(server: &Server, change: &Change, id: &Id, cx: &Context) -> Option<Bytes> {
    if let Change::Task(task) = change {
        let task = server.0.tasks.get(task, &Owner::of(cx))?;
        let meta = object(|meta| {
            meta.raw(SUBSCRIPTION_ID, id.as_bytes());
        });
        return Some(tasks::notification(&task, &meta));
    }
    let params = object(|params| {
        if let Change::Resource(uri) = change {
            params.field("uri", uri);
        }
        write_meta(params, id);
    });
    Some(encode::notification(change.method(), Some(&params)))
}

/// The notification of a change of another server's task.
fn foreign_task(task: &[u8], id: &Id) -> Bytes {
    let mut params = Writer::new();
    for (name, value) in Members::parse(task).unwrap_or_default().iter() {
        params.raw(name, value);
    }
    params.object("_meta", |meta| meta.raw(SUBSCRIPTION_ID, id.as_bytes()));
    encode::notification(tasks::NOTIFICATION, Some(&params.finish()))
}

/// The id goes back as it came: a number stays a number.
fn write_meta(params: &mut Object<'_>, id: &Id) {
    let mut meta = Object::open(params.member("_meta"));
    meta.raw(SUBSCRIPTION_ID, id.as_bytes());
    meta.close();
}
