//! `lyceum search`: what an agent would find.

use std::fmt::Write;
use std::process::ExitCode;

use lyceum_kb::{Hit, Kb, Prefix, Search, SearchResult};

use crate::cli::SearchOpts;
use crate::config::Environment;
use crate::library;
use crate::stdout::print;
use crate::terminal::{self, one_line};

pub(crate) fn run(opts: SearchOpts, environment: &Environment) -> anyhow::Result<ExitCode> {
    library::with(opts.place.clone(), environment, async |kb| search(&kb, opts).await)
}

async fn search(kb: &Kb, opts: SearchOpts) -> anyhow::Result<ExitCode> {
    kb.load_vectors().await?;
    let mut search =
        Search { query: opts.query.join(" "), limit: opts.limit.into(), ..Search::default() };
    search.filter.prefix = Prefix::parse(opts.prefix.as_deref().unwrap_or_default())?;
    search.filter.tags = opts.tag;
    search.explain = opts.explain;
    let found = kb.search(&search).await?;
    if let Some(reason) = &found.degraded {
        terminal::say(format_args!("words only: {reason}"));
    }
    if found.hits.is_empty() {
        eprintln!("nothing found");
        return Ok(ExitCode::FAILURE);
    }
    print(text(&found).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Three lines a hit: score, path and title; where it stands; the passage.
fn text(found: &SearchResult) -> String {
    let mut text = String::new();
    for Hit { meta, score, snippet, explanation } in &found.hits {
        let (path, title) = (one_line(meta.path.as_str()), one_line(&meta.title));
        let _ = writeln!(text, "{score:.3}  {path}  {title}");
        if let Some(explanation) = explanation {
            let side = |side: Option<(f32, f32)>| {
                side.map_or("none".to_owned(), |(raw, scaled)| format!("{scaled:.2} ({raw:.3})"))
            };
            let (lexical, vector) = (side(explanation.lexical), side(explanation.vector));
            let _ = writeln!(
                text,
                "       words {lexical}, meaning {vector}, which counts {:.2}",
                explanation.weight
            );
        }
        let passage: Vec<&str> = snippet.text.split_whitespace().collect();
        let _ = writeln!(text, "       {}\n", one_line(&passage.join(" ")));
    }
    text
}
