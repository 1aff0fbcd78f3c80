//! One route: its method and pattern, what it takes and answers, and the function that does it.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use lyceum_kb::Error;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::Problem;
use super::visit::Visit;
use crate::knowledge::charge::{JsonSize, WrittenAnswer};
use crate::knowledge::desk::{MAX_PROBLEM, shortened};

/// Where a pattern holds the path of a document, slashes and all.
pub(super) const PLACE: &str = "{path}";

type Running = Pin<Box<dyn Future<Output = Result<Reply, Problem>> + Send>>;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Those the gate lets in.
    Guarded,
    /// Everybody.
    Open,
}

/// One route.
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) pattern: &'static str,
    /// What the call is named in the audit trail: that of the tool that does the same, if any.
    pub(super) tool: &'static str,
    pub(super) summary: &'static str,
    pub(super) access: Access,
    /// The JSON Schema of the arguments, path included.
    pub(super) arguments: Value,
    /// The JSON Schema of the answer; `None` for one that is not JSON.
    pub(super) answer: Option<fn(&mut SchemaGenerator) -> Schema>,
    run: Box<dyn Fn(Visit, Value) -> Running + Send + Sync>,
}

/// What a route's function answers.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) media: Option<HeaderValue>,
    pub(super) allow: Option<HeaderValue>,
    pub(super) body: Bytes,
}

/// A route, and what stands in the place of the document's path.
pub(super) struct Matched<'a> {
    pub(super) route: &'a Route,
    pub(super) captured: Option<&'a str>,
}

impl Route {
    /// A route that answers `R` as JSON, with the status the function chooses.
    pub(super) fn new<A, R, F>(
        method: Method,
        pattern: &'static str,
        tool: &'static str,
        summary: &'static str,
        run: fn(Visit, A) -> F,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema + 'static,
        R: Serialize + JsonSchema + Send + 'static,
        F: Future<Output = Result<(StatusCode, R), Problem>> + Send + 'static,
    {
        let answer =
            Some(SchemaGenerator::subschema_for::<R> as fn(&mut SchemaGenerator) -> Schema);
        let json = move |visit: Visit, arguments: Value| -> Running {
            let arguments = match serde_json::from_value(arguments) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let problem = shortened(&error.to_string(), MAX_PROBLEM);
                    let problem = Error::invalid(problem).into();
                    return Box::pin(std::future::ready(Err(problem)));
                }
            };
            let payer = visit.payer.clone();
            let running = run(visit, arguments);
            Box::pin(async move {
                let (status, answer) = running.await?;
                let WrittenAnswer { json, charge } = payer.written(answer, JsonSize::bytes).await?;
                let body = Bytes::from(json);
                Ok(Reply::json(
                    status,
                    match charge {
                        Some(mut charge) => {
                            charge.shrink(body.len());
                            Arc::new(charge).attach(body)
                        }
                        None => body,
                    },
                ))
            })
        };
        Self {
            method,
            pattern,
            tool,
            summary,
            access: Access::Guarded,
            arguments: schema::<A>(),
            answer,
            run: Box::new(json),
        }
    }

    /// A route that takes nothing and answers something else than JSON of a known shape.
    pub(super) fn plain<F>(
        pattern: &'static str,
        summary: &'static str,
        run: fn(Visit) -> F,
    ) -> Self
    where
        F: Future<Output = Result<Reply, Problem>> + Send + 'static,
    {
        Self {
            method: Method::GET,
            pattern,
            tool: "",
            summary,
            access: Access::Guarded,
            arguments: Value::Null,
            answer: None,
            run: Box::new(move |visit, _| Box::pin(run(visit))),
        }
    }

    /// Lets everybody in.
    pub(super) fn open(self) -> Self {
        Self { access: Access::Open, ..self }
    }

    pub(super) fn run(&self, visit: Visit, arguments: Value) -> Running {
        (self.run)(visit, arguments)
    }

    pub(super) fn reads_body(&self) -> bool {
        self.method != Method::GET
    }

    /// Whether `path` fits; if so, what stands in the place of the document's path.
    fn fits<'a>(&self, path: &'a str) -> Option<Option<&'a str>> {
        let Some((before, after)) = self.pattern.split_once(PLACE) else {
            return (self.pattern == path).then_some(None);
        };
        let captured = path.strip_prefix(before)?.strip_suffix(after)?;
        Some(Some(captured).filter(|captured| !captured.is_empty()))
    }

    fn answers(&self, method: &Method) -> bool {
        self.method == *method || (self.method == Method::GET && *method == Method::HEAD)
    }
}

impl Reply {
    pub(super) fn json(status: StatusCode, body: impl Into<Bytes>) -> Self {
        Self::new(status, "application/json", body)
    }

    pub(super) fn new(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Self {
        let media = Some(HeaderValue::from_static(media));
        Self { status, media, allow: None, body: body.into() }
    }

    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, media: None, allow: None, body: Bytes::new() }
    }

    pub(super) fn allowing(self, methods: &[&Method]) -> Self {
        Self { allow: Some(listed(methods)), ..self }
    }
}

/// The route for a request. An exact pattern stands before one with a place for a path.
pub(super) fn find<'a>(
    routes: &'a [Route],
    method: &Method,
    path: &'a str,
) -> Result<Matched<'a>, Problem> {
    let fitting = routes.iter().filter_map(|route| Some((route, route.fits(path)?)));
    let mut fitting = fitting.filter(|(route, _)| route.answers(method));
    match fitting.next() {
        Some((route, captured)) => Ok(Matched { route, captured }),
        None => match allowed(routes, path).as_slice() {
            [] => Err(Problem::no_such_route()),
            methods => Err(Problem::wrong_method(listed(methods))),
        },
    }
}

/// The methods that are served at `path`.
pub(super) fn allowed<'a>(routes: &'a [Route], path: &str) -> Vec<&'a Method> {
    let fitting = routes.iter().filter(|route| route.fits(path).is_some());
    let mut methods: Vec<&Method> = fitting.map(|route| &route.method).collect();
    if methods.contains(&&Method::GET) {
        methods.push(&Method::HEAD);
    }
    methods.dedup();
    methods
}

fn listed(methods: &[&Method]) -> HeaderValue {
    let names: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
    HeaderValue::from_str(&names.join(", ")).expect("names of methods are header values")
}

fn schema<A: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.into_generator().into_root_schema_for::<A>().to_value()
}
