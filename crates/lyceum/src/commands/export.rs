//! `lyceum export`: documents become files, or lines of one file.

use std::path::Path;
use std::process::ExitCode;

use lyceum_kb::store::ListPage;
use lyceum_kb::{Document, Kb, Prefix};

use crate::cli::ExportOpts;
use crate::config::Environment;
use crate::files::{Exporter, LinesFile};
use crate::library;
use crate::terminal;

/// Documents read at a time.
const PAGE: usize = 100;

/// Where documents go.
enum Target {
    Files(Exporter),
    Lines(LinesFile),
}

pub(crate) fn run(opts: ExportOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    library::with(opts.place.clone(), environment, async |kb| {
        let mut target = Target::open(&opts.target)?;
        let n_documents = export(&kb, &opts.prefix, &mut target).await?;
        target.finish()?;
        eprintln!("exported {n_documents} documents to {}", opts.target.display());
        Ok(ExitCode::SUCCESS)
    })
}

async fn export(kb: &Kb, prefix: &str, target: &mut Target) -> anyhow::Result<usize> {
    let mut page = ListPage { prefix: Prefix::parse(prefix)?, limit: PAGE, ..ListPage::default() };
    let mut n_documents = 0;
    loop {
        let list = kb.list(page.clone()).await?;
        let keys: Vec<i64> = list.items.iter().map(|meta| meta.key).collect();
        for document in kb.store().documents_by_key(&keys).await? {
            target.take(&document)?;
            n_documents += 1;
        }
        match list.items.last() {
            Some(last) if list.more => page.after = Some(last.path.as_str().to_owned()),
            _ => return Ok(n_documents),
        }
    }
}

impl Target {
    fn open(target: &Path) -> anyhow::Result<Self> {
        if target.extension().is_some_and(|extension| extension == "jsonl") {
            return LinesFile::create(target).map(Self::Lines);
        }
        Exporter::into(target).map(Self::Files)
    }

    fn take(&mut self, document: &Document) -> anyhow::Result<()> {
        match self {
            Self::Lines(file) => file.write(document),
            Self::Files(exporter) => {
                let exported = exporter.write(document)?;
                let path = &document.meta.path;
                if exported.renamed {
                    terminal::say(format_args!(
                        "{path} is in {}, because its own name cannot be a file's",
                        exported.file
                    ));
                }
                if exported.bare {
                    terminal::say(format_args!(
                        "{path}: such files hold no title, tags or metadata; a .jsonl holds all"
                    ));
                }
                Ok(())
            }
        }
    }

    fn finish(self) -> anyhow::Result<()> {
        match self {
            Self::Lines(file) => file.finish(),
            Self::Files(exporter) => exporter.finish(),
        }
    }
}
