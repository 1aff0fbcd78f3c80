//! `lyceum stdio`: serves the client that started us, with everything that is behind the gateway.

use std::process::ExitCode;
use std::sync::Arc;

use lyceum_http::ByteBudgets;
use lyceum_kb::Indexer;
use lyceum_server::stdio::{Options, serve};

use crate::background::Background;
use crate::cli::StdioOpts;
use crate::config::{Config, Environment, Settings};
use crate::{behind, knowledge, library, logging};

pub(crate) fn run(opts: StdioOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let flags = Settings { log: opts.log, data: opts.data, ..Settings::default() };
    let config = Config::load(flags, opts.config.as_deref(), environment)?;
    logging::start(&config.log, environment);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let budgets = Arc::new(ByteBudgets::new(&config.limits));
    let options = Options {
        question: config.limits.question,
        line_bytes: config.limits.body_bytes,
        budgets: Arc::clone(&budgets),
        ..Options::default()
    };
    let served = runtime.block_on(async {
        let kb = library::open(&config).await?;
        let server = knowledge::server(&kb, config.policy.max_body, |_| true);
        let mut background = Background::default();
        background.run(knowledge::follow(&kb, vec![server.clone()]).await?);
        let _indexer = Indexer::start_sweeping(kb, config.maintenance.reindex)?;
        let gateway = behind::gateway(&config, &behind::sealer(&config)?, &budgets)?;
        let door = gateway.door(server, Arc::new(|_: &str| true));
        let served = serve(door, options).await;
        gateway.close().await;
        background.stop().await;
        anyhow::Ok(served?)
    });
    // A read of standard input cannot be interrupted; do not wait for it.
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}
