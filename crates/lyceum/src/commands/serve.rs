//! `lyceum serve`: reads and checks everything, binds, says where it is, and serves until told to
//! stop.

use std::io;
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Duration;

use crate::app::App;
use crate::behind::Origin;
use crate::cli::ServeOpts;
use crate::config::{Config, Environment};
use crate::stdout::print;
use crate::stop::StopSignals;
use crate::welcome::Welcome;
use crate::{logging, monitoring, open_files};

/// How long work off the async threads may take to end once nothing is served.
const ENDING: Duration = Duration::from_secs(2);

pub(crate) fn run(opts: ServeOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    let origin =
        Origin { flags: opts.settings, file: opts.config, environment: environment.clone() };
    let config = Config::load(origin.flags.clone(), origin.file.as_deref(), environment)?;
    logging::start(&config.log, environment);
    open_files::raise();
    let metrics = monitoring::install()?;
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let stop = StopSignals::catch().context("cannot catch signals")?;
        let mut app = App::start(config, metrics).await?;
        app.follow(origin);
        let program = std::env::current_exe().unwrap_or_else(|_| "lyceum".into());
        print(Welcome::new(&app, &program))?;
        app.run(stop.told()).await.context("serving")
    });
    // A search or a conversion that is still busy has no caller any more.
    runtime.shutdown_timeout(ENDING);
    served.map(|()| ExitCode::SUCCESS)
}

/// What serves: a thread for each processor. If there is only one, it need not share with others, which makes every
/// call cheaper.
fn runtime() -> io::Result<Runtime> {
    let mut builder = match thread::available_parallelism() {
        Ok(NonZero::<usize>::MIN) => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.enable_all().build()
}
