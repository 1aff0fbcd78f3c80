//! `lyceum stdio`: serves the client that started us.

use std::process::ExitCode;

use lyceum_server::stdio::{Options, serve};

use crate::cli::StdioOpts;
use crate::config::{Config, Environment, Settings};
use crate::{demo, logging};

pub(crate) fn run(opts: StdioOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let flags = Settings { log: opts.log, ..Settings::default() };
    let config = Config::load(flags, opts.config.as_deref(), environment)?;
    logging::start(&config.log, environment);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let options = Options { question: config.limits.question, ..Options::default() };
    let served = runtime.block_on(serve(demo::server(|_| true), options));
    // A read of standard input cannot be interrupted; do not wait for it.
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}
