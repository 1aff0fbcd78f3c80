//! `lyceum explain`: how a request would be answered, and why.

use std::process::ExitCode;

use http::Method;
use lyceum_http::explain::explain;

use crate::cli::ExplainOpts;
use crate::stdout::print;

pub(crate) fn run(opts: &ExplainOpts) -> anyhow::Result<ExitCode> {
    let method = if opts.get { Method::GET } else { Method::POST };
    let accept = opts.accept.as_deref();
    print(explain(accept, opts.dialect.0, &method, &opts.method, !opts.no_sse))?;
    Ok(ExitCode::SUCCESS)
}
